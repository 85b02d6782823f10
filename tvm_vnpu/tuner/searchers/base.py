"""What every searcher is: it proposes points that are new, and is told what they cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codegen.ops.base import Operator
from codegen.schedule import ScheduleError
from codegen.space import Point, Space
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.cost_model import Experience, Featurizer

Results = Sequence[tuple[Point, "int | None"]]
"""Points with their cycles; None where measuring one failed."""

_DRAWS = 200
"""How often a random point may be one that is known, before all points are listed."""
_LISTED = 20_000
"""The largest space whose points are all listed; of a larger one few points are known, and chance
finds others.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What is searched: an operator's space on an NPU, its features, and the dice to do it with."""

    operator: Operator
    npu: NpuConfig
    space: Space
    featurizer: Featurizer
    rng: np.random.Generator


class Searcher(ABC):
    """Proposes legal points, each once. All choices come from `subject.rng` and the results."""

    needs: ClassVar[tuple[str, ...]] = ()
    """Modules that the searcher imports, for a clear message where one is missing."""

    def __init__(self, subject: Subject) -> None:
        """Start without results."""
        self.subject, self.space, self.rng = subject, subject.space, subject.rng
        self.seen: set[Point] = set()
        self.experience = Experience()

    @abstractmethod
    def propose(self, count: int) -> list[Point]:
        """Return up to `count` new points; fewer only where hardly any are left."""

    def update(self, results: Results) -> None:
        """Take the results of what was proposed last."""
        known = [(self.space.schedule(point), cycles) for point, cycles in results]
        rows = self.subject.featurizer.rows([schedule for schedule, _ in known])
        for row, (_, cycles) in zip(rows, known):
            if cycles is not None:
                self.experience.add(row, cycles)

    def learn(self, experiences: Sequence[Experience]) -> None:
        """Take the results of other tasks; only a searcher with a model has a use for them."""
        del experiences

    def fresh(self, count: int) -> list[Point]:
        """Return up to `count` random points that were not proposed before."""
        found: list[Point] = []
        for _ in range(count):
            point = self._unseen()
            if point is None:
                break
            self.seen.add(point)
            found.append(point)
        return found

    def canonical(self, point: Point) -> Point | None:
        """Return the canonical point of any, None where it is not legal or not in the space."""
        if not self.space.is_legal(point):
            return None
        try:
            return self.space.point_of(self.space.schedule(point))
        except ScheduleError:
            return None

    def _unseen(self) -> Point | None:
        for _ in range(_DRAWS):
            point = self.space.random(self.rng)
            if point not in self.seen:
                return point
        if self.space.size > _LISTED:
            return None
        left = [point for point in self.space.points() if point not in self.seen]
        return left[int(self.rng.integers(len(left)))] if left else None
