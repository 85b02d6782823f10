"""The best schedule of a space, proven: best-first branch and bound.

The space is cut into families of schedules that differ only in how far they overlap (buffers,
prefetch, unrolling). A family's bound is that of its loosest member, so whole families fall at
once; the members of the others are measured in the order of their own bounds until no bound left
is below the best cycles found. No search with these bounds can measure fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from codegen.bounds import bounds_of_columns, columns_of
from codegen.measure import cycles_of
from codegen.ops.base import Operator, best_schedule
from codegen.schedule import Schedule
from codegen.space import Knob
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.families import Families

BATCH = 32
STARTS = 16
UNKNOWN = 1 << 62


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the search found.

    `bound`: no schedule of the space has fewer cycles; it equals `cycles` where `proven`, and is 0
    where the search ended before it had any.
    `families`: how many might have had fewer cycles than the first schedules measured; `opened` of
    them were cut into their members.
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


def find_optimum(
    operator: Operator,
    npu: NpuConfig,
    limit: int | None = None,
    knobs: Sequence[Knob] | None = None,
    starts: Sequence[Schedule] = (),
    enough: int = 0,
) -> Optimum:
    """Return the best schedule of `operator`'s space on `npu`.

    `limit`: measurements after which the search ends unproven. `knobs`: a part of the space, the
    operator's knobs with fewer values. `starts`: schedules to measure first; those that are not in
    that part do not count. `enough`: cycles that are low enough to end the search. Raises
    ScheduleError where no schedule is legal.
    """
    return _Search(operator, npu, tuple(knobs or operator.knobs(npu))).run(limit, starts, enough)


@dataclass(slots=True)
class _Search:
    operator: Operator
    npu: NpuConfig
    knobs: tuple[Knob, ...]
    measured: dict[Schedule, int] = field(default_factory=dict)
    waiting: list[tuple[int, int, Schedule]] = field(default_factory=list)
    known: set[Schedule] = field(default_factory=set)
    opened: int = 0
    best: tuple[int, Schedule | None] = UNKNOWN, None
    families: Families = field(init=False)

    def __post_init__(self) -> None:
        self.families = Families(self.operator, self.npu, self.knobs)

    def run(self, limit: int | None, starts: Sequence[Schedule], enough: int) -> Optimum:
        self._measure(self._starts(starts))
        if self.best[1] is not None and self.best[0] <= enough:
            return Optimum(self.best[1], self.best[0], 0, 0, 0, len(self.measured))
        families, bounds = self.families.below(self.best[0])
        while self.best[0] > enough and (limit is None or len(self.measured) < limit):
            ahead = int(bounds[self.opened]) if self.opened < len(families) else None
            if self.waiting and (ahead is None or self.waiting[0][0] <= ahead):
                if self.waiting[0][0] >= self.best[0]:
                    break
                self._measure(self._next(ahead))
            elif ahead is None or ahead >= self.best[0]:
                break
            else:
                self._open(families[self.opened])
                self.opened += 1
        rest = [int(bound) for bound in bounds[self.opened : self.opened + 1]]
        least = min([*rest, *(entry[0] for entry in self.waiting[:1])], default=self.best[0])
        cycles, schedule = self.best
        if schedule is None:
            raise self.operator.no_schedule(self.npu)
        bound = min(least, cycles)
        return Optimum(schedule, cycles, bound, len(families), self.opened, len(self.measured))

    def _starts(self, given: Sequence[Schedule]) -> list[Schedule]:
        """Return canonical schedules to measure first: those given, and the default ones."""
        defaults = self.operator.schedules(self.npu)
        if defaults:
            given = (*given, best_schedule(self.operator, self.npu), *defaults[:STARTS])
        whole = self.operator.knobs(self.npu)
        narrowed = [a for a, b in zip(self.knobs, whole, strict=True) if a.values != b.values]
        return [
            schedule
            for schedule in map(self._canonical, given)
            if self.operator.is_legal(schedule, self.npu)
            and all(getattr(schedule, knob.name) in knob.values for knob in narrowed)
        ]

    def _canonical(self, schedule: Schedule) -> Schedule:
        return self.operator.canonical(schedule, self.npu)

    def _measure(self, schedules: Sequence[Schedule]) -> None:
        new = [s for s in dict.fromkeys(schedules) if s not in self.measured]
        found = cycles_of(self.operator, new, self.npu)
        self.measured.update(zip(new, found, strict=True))
        for schedule, cycles in zip(new, found, strict=True):
            if cycles < self.best[0]:
                self.best = cycles, schedule

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

    def _open(self, family: Schedule) -> None:
        """Put a family's members that may still be the best one into the queue."""
        best = self.best[0]
        members = list(self.families.members(family))
        bounds = bounds_of_columns(self.operator, columns_of(members), self.npu)
        for member, bound in zip(members, bounds.tolist(), strict=True):
            if bound >= best:
                continue
            schedule = self._canonical(member)
            if schedule in self.known or schedule in self.measured:
                continue
            self.known.add(schedule)
            if self.operator.is_legal(schedule, self.npu):
                heappush(self.waiting, (int(bound), len(self.known), schedule))
