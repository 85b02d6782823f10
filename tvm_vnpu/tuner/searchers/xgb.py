"""Model-guided search: annealing proposes what an XGBoost ranking of the results likes best.

The first points are the default schedule and the top of the analytic ranking. A share of the later
ones is random, so that a wrong model finds out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from codegen.features import FEATURES
from codegen.ops.base import best_schedule
from codegen.schedule import ScheduleError
from codegen.space import Point
from tvm_vnpu.tuner.cost_model import CostModel, Experience, Vector
from tvm_vnpu.tuner.searchers.annealing import CHAINS, anneal
from tvm_vnpu.tuner.searchers.base import Results, Searcher, Subject

EPSILON = 0.1
"""The share of random points."""
_ESTIMATE = FEATURES.index("log_estimate")


class XgbSearcher(Searcher):
    """Proposes by cost model; learns from this task's results and from other tasks'."""

    needs: ClassVar[tuple[str, ...]] = ("xgboost",)

    def __init__(self, subject: Subject) -> None:
        """Start with nothing measured."""
        super().__init__(subject)
        self._others: list[Experience] = []
        self._best: list[tuple[int, Point]] = []
        self._model = CostModel(int(self.rng.integers(1 << 31)))

    def propose(self, count: int) -> list[Point]:
        """Return new points: the model's favourites and a random share."""
        first = [] if self.seen else self._default()
        self.seen.update(first)
        wanted = count - len(first)
        chance = int(self.rng.binomial(wanted, EPSILON)) if self._best else 0
        starts = [point for _, point in self._best[: CHAINS // 2]] or first
        trained = self._model.train([*self._others, self.experience])
        score = self._score if trained else self._analytic
        picked = anneal(self.subject, score, starts, wanted - chance, self.seen)
        self.seen.update(picked)
        return [*first, *picked, *self.fresh(wanted - len(picked))]

    def update(self, results: Results) -> None:
        """Learn from what was measured."""
        super().update(results)
        self._best += [(cycles, point) for point, cycles in results if cycles is not None]
        self._best.sort()

    def learn(self, experiences: Sequence[Experience]) -> None:
        """Train on these, too."""
        self._others = list(experiences)

    def _default(self) -> list[Point]:
        try:
            schedule = best_schedule(self.subject.operator, self.subject.npu)
            return [self.space.point_of(schedule)]
        except ScheduleError:  # the default is no point of the space
            return []

    def _rows(self, points: Sequence[Point]) -> Vector:
        return self.subject.featurizer.rows([self.space.schedule(point) for point in points])

    def _score(self, points: Sequence[Point]) -> Vector:
        return self._model.predict(self._rows(points))

    def _analytic(self, points: Sequence[Point]) -> Vector:
        """Score by the analytic estimate, which needs no results."""
        return -self._rows(points)[:, _ESTIMATE]
