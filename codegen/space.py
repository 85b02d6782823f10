"""The schedule space of an operator: its knobs, and the points that are legal and distinct."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from codegen.schedule import Schedule, ScheduleError, Value

if TYPE_CHECKING:
    from codegen.ops.base import Operator
    from runtime_sim.npu import NpuConfig

Point = tuple[int, ...]
"""An index into each knob's values."""

GROWING = ("in_buffers", "weight_buffers", "out_buffers", "acc_buffers", "prefetch", "unroll")
"""The knobs that come last in a space. A kernel that does not fit with the first value of them all
fits with no others, and whether the other knobs have an effect does not depend on them.
"""

_ATTEMPTS = 2_000
"""How many random points are tried before one is looked for near the default schedule."""
_WALK = 32
_KEPT = 50_000
"""How many points' schedules are kept."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A field of Schedule and the values that it may take, the smallest effect first."""

    name: str
    values: tuple[Value, ...]


class Space:
    """The points of an operator on an NPU.

    A point is legal where its kernel fits the NPU. Knobs without effect at a point take a fixed
    value in its schedule, so that points of equal streams give equal schedules. One point among
    those is the canonical one, which `points`, `random` and `neighbour` give.
    """

    def __init__(self, operator: Operator, npu: NpuConfig) -> None:
        """Take the operator's knobs; ScheduleError where no point is legal."""
        self.operator, self.npu = operator, npu
        self.knobs = operator.knobs(npu)
        self._names = tuple(knob.name for knob in self.knobs)
        self._index = [{value: i for i, value in enumerate(knob.values)} for knob in self.knobs]
        self._growing = sum(knob.name in GROWING for knob in self.knobs)
        self._schedules: dict[Point, Schedule] = {}
        if not operator.schedules(npu):
            raise operator.no_schedule(npu)

    @property
    def size(self) -> int:
        """Return how many points there are, illegal and equal ones included."""
        return prod(len(knob.values) for knob in self.knobs)

    def schedule(self, point: Point) -> Schedule:
        """Return the canonical schedule of a point."""
        return self._schedules.get(point) or self._schedule(point)

    def _schedule(self, point: Point) -> Schedule:
        values = {
            knob.name: knob.values[index] for knob, index in zip(self.knobs, point, strict=True)
        }
        return self.operator.canonical(Schedule(**values), self.npu)  # type: ignore[arg-type]

    def is_legal(self, point: Point) -> bool:
        """Return whether the kernel of a point fits the NPU."""
        return self._settled(point) is not None

    def point_of(self, schedule: Schedule) -> Point:
        """Return the canonical point of a schedule; ScheduleError where the space lacks it."""
        point = self._point(self.operator.canonical(schedule, self.npu))
        if point is None:
            raise ScheduleError(
                f"{self.operator.name}: the schedule is not in the space",
                seen=schedule.describe(),
                limit=f"{len(self.knobs)} knobs of {self.operator.kind}",
            )
        return point

    def points(self) -> Iterator[Point]:
        """Yield the distinct legal points in a fixed order."""
        ranges = [range(len(knob.values)) for knob in self.knobs]
        split = len(ranges) - self._growing
        for start in product(*ranges[:split]):
            least = self._settled((*start, *(0,) * self._growing))
            if least is None or least[:split] != start:
                continue
            for end in product(*ranges[split:]):
                if self._settled((*start, *end)) == (*start, *end):
                    yield (*start, *end)

    def random(self, rng: np.random.Generator) -> Point:
        """Return the canonical point of a random one, legal.

        Where legal points are rare, it is that of a walk from the default schedule's.
        """
        sizes = [len(knob.values) for knob in self.knobs]
        for _ in range(_ATTEMPTS):
            point = self._settled(tuple(int(index) for index in rng.integers(0, sizes)))
            if point is not None:
                return point
        point = self._start()
        for _ in range(_WALK):
            point = self.neighbour(point, rng)
        return point

    def neighbour(self, point: Point, rng: np.random.Generator) -> Point:
        """Return the canonical point that moving one knob leads to, or `point` if none is legal."""
        moves = [
            (index, value)
            for index, knob in enumerate(self.knobs)
            for value in range(len(knob.values))
            if value != point[index]
        ]
        for move in rng.permutation(len(moves)):
            index, value = moves[move]
            moved = self._settled((*point[:index], value, *point[index + 1 :]))
            if moved is not None and moved != point:
                return moved
        return point

    def _start(self) -> Point:
        """Return a legal point: the best default schedule's that is in the space, or the first."""
        for schedule in self.operator.schedules(self.npu):
            point = self._point(self.operator.canonical(schedule, self.npu))
            if point is not None and self._settled(point) == point:
                return point
        point = next(self.points(), None)
        if point is None:
            raise self.operator.no_schedule(self.npu)
        return point

    def _settled(self, point: Point) -> Point | None:
        """Return the canonical point of a point's schedule; None where it is not legal.

        Searchers ask for the schedules of points that they have just been given: those are kept.
        """
        schedule = self._schedule(point)
        if not self.operator.is_legal(schedule, self.npu):
            return None
        settled = self._point(schedule)
        if settled is not None:
            if len(self._schedules) >= _KEPT:
                self._schedules.clear()
            self._schedules[settled] = schedule
        return settled

    def _point(self, schedule: Schedule) -> Point | None:
        values = [getattr(schedule, name) for name in self._names]
        found = [index.get(value) for index, value in zip(self._index, values, strict=True)]
        return None if None in found else tuple(i for i in found if i is not None)
