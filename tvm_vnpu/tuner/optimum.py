"""The best schedule of a space, proven: best-first branch and bound.

The space is cut into families of schedules that differ only in how far they overlap (buffers,
prefetch, unrolling). A family's bound is that of its loosest member, so whole families fall at
once; the members of the others are measured in the order of their own bounds until no bound left
is below the best cycles found. No search with these bounds can measure fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import product

import numpy as np
from numpy.typing import NDArray

from codegen.bounds import bounds_of_columns, columns_of
from codegen.measure import cycles_of
from codegen.ops.base import Operator, best_schedule
from codegen.schedule import Schedule
from codegen.space import Knob
from runtime_sim.npu import NpuConfig

LOOSENING = (
    "in_buffers", "weight_buffers", "out_buffers", "acc_buffers", "prefetch", "unroll",
)  # fmt: skip
"""Knobs whose larger values can only lower a bound."""
BATCH = 32
STARTS = 16


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the search found.

    `bound`: no schedule of the space has fewer cycles; it equals `cycles` where `proven`.
    `families`: how many there are; `opened` of them were cut into their members.
    """

    schedule: Schedule
    cycles: int
    bound: int
    families: int
    opened: int
    measured: int

    @property
    def proven(self) -> bool:
        """Return whether no schedule is better."""
        return self.bound >= self.cycles


def find_optimum(operator: Operator, npu: NpuConfig, limit: int | None = None) -> Optimum:
    """Return the best schedule of `operator`'s space on `npu`.

    `limit`: measurements after which the search ends unproven. Raises ScheduleError for an empty
    space.
    """
    return _Search(operator, npu).run(limit)


@dataclass(slots=True)
class _Search:
    operator: Operator
    npu: NpuConfig
    measured: dict[Schedule, int] = field(default_factory=dict)
    waiting: list[tuple[int, int, Schedule]] = field(default_factory=list)
    known: set[Schedule] = field(default_factory=set)
    opened: int = 0

    def run(self, limit: int | None) -> Optimum:
        starts = (best_schedule(self.operator, self.npu), *self.operator.schedules(self.npu))
        self._measure([self._canonical(schedule) for schedule in starts[: STARTS + 1]])
        families = self._families()
        bounds = self._bounds(families, loosest=True)
        order = np.argsort(bounds, kind="stable")
        while limit is None or len(self.measured) < limit:
            ahead = int(bounds[order[self.opened]]) if self.opened < len(order) else None
            if self.waiting and (ahead is None or self.waiting[0][0] <= ahead):
                if self.waiting[0][0] >= self.best[0]:
                    break
                self._measure(self._next(ahead))
            elif ahead is None or ahead >= self.best[0]:
                break
            else:
                self._open(families[order[self.opened]])
                self.opened += 1
        rest = [int(bounds[i]) for i in order[self.opened : self.opened + 1]]
        least = min([*rest, *(entry[0] for entry in self.waiting[:1])], default=self.best[0])
        cycles, schedule = self.best
        bound = min(least, cycles)
        return Optimum(schedule, cycles, bound, len(families), self.opened, len(self.measured))

    @property
    def best(self) -> tuple[int, Schedule]:
        """Return the fewest cycles and their schedule."""
        schedule = min(self.measured, key=self.measured.__getitem__)
        return self.measured[schedule], schedule

    def _canonical(self, schedule: Schedule) -> Schedule:
        return self.operator.canonical(schedule, self.npu)

    def _measure(self, schedules: Sequence[Schedule]) -> None:
        new = [s for s in dict.fromkeys(schedules) if s not in self.measured]
        found = cycles_of(self.operator, new, self.npu)
        self.measured.update(zip(new, found, strict=True))

    def _next(self, ahead: int | None) -> list[Schedule]:
        """Take the waiting schedules with the lowest bounds, none above the next family's."""
        taken: list[Schedule] = []
        best = self.best[0]
        while self.waiting and len(taken) < BATCH:
            bound = self.waiting[0][0]
            if bound >= best or (ahead is not None and bound > ahead):
                break
            taken.append(heappop(self.waiting)[2])
        return taken

    def _families(self) -> list[Schedule]:
        """Return the tightest schedule of every family of which any is legal."""
        fixed = [knob for knob in self._knobs() if knob.name not in LOOSENING]
        least = {knob.name: knob.values[0] for knob in self._knobs() if knob.name in LOOSENING}
        found: dict[Schedule, None] = {}
        for values in product(*(knob.values for knob in fixed)):
            names = {knob.name: value for knob, value in zip(fixed, values, strict=True)}
            schedule = self._canonical(Schedule(**names, **least))  # type: ignore[arg-type]
            if schedule not in found and self.operator.is_legal(schedule, self.npu):
                found[schedule] = None
        return list(found)

    def _knobs(self) -> tuple[Knob, ...]:
        return self.operator.knobs(self.npu)

    def _bounds(self, schedules: Sequence[Schedule], loosest: bool) -> NDArray[np.float64]:
        columns = dict(columns_of(schedules))
        if loosest:
            for knob in self._knobs():
                if knob.name in LOOSENING:
                    columns[knob.name] = np.full(len(schedules), knob.values[-1])
        return bounds_of_columns(self.operator, columns, self.npu)

    def _open(self, family: Schedule) -> None:
        """Put a family's members that may still be the best one into the queue."""
        best = self.best[0]
        members = list(self._members(family))
        bounds = self._bounds(members, loosest=False).tolist()
        for member, bound in zip(members, bounds, strict=True):
            if bound >= best:
                continue
            schedule = self._canonical(member)
            if schedule in self.known or schedule in self.measured:
                continue
            self.known.add(schedule)
            if self.operator.is_legal(schedule, self.npu):
                heappush(self.waiting, (int(bound), len(self.known), schedule))

    def _members(self, family: Schedule) -> Iterator[Schedule]:
        """Yield the schedules of a family, those that overlap most first."""
        knobs = [knob for knob in self._knobs() if knob.name in LOOSENING]
        for values in product(*(knob.values[::-1] for knob in knobs)):
            names = {knob.name: value for knob, value in zip(knobs, values, strict=True)}
            yield replace(family, **names)  # type: ignore[arg-type]
