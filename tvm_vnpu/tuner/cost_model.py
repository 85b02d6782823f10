"""The cost model: XGBoost ranks schedules by features that never run the timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.features import FEATURES, features_of
from codegen.ops.base import Operator, best_schedule
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig

Vector = NDArray[np.float64]

MIN_ROWS = 4
"""Results of a task below which a model says nothing."""
ROUNDS = 40
MARGIN = 100.0
"""What halving a schedule's lower bound is worth before anything is learned: 1 % of it, 1.4."""
_BOUND = FEATURES.index("log_bound")
_PARAMETERS = {
    "objective": "rank:pairwise", "max_depth": 5, "eta": 0.2, "min_child_weight": 0.0,
    "lambda": 1.0, "tree_method": "hist", "max_bin": 128, "nthread": 1, "verbosity": 0,
    "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8,
}  # fmt: skip


class Featurizer:
    """What the cost model sees of an operator's schedules."""

    def __init__(self, operator: Operator, npu: NpuConfig) -> None:
        """Take the default schedule's features as the unit."""
        self._operator, self._npu = operator, npu
        self._plain: dict[Schedule, Vector] = {}
        self._unit = self.plain(operator.canonical(best_schedule(operator, npu), npu))

    def plain(self, schedule: Schedule) -> Vector:
        """Return the features of one canonical schedule as codegen gives them."""
        self._fill([schedule])
        return self._plain[schedule]

    def rows(self, schedules: Sequence[Schedule]) -> Vector:
        """Return a row for the model for each schedule."""
        self._fill(schedules)
        return model_row(np.stack([self._plain[schedule] for schedule in schedules]), self._unit)

    def _fill(self, schedules: Sequence[Schedule]) -> None:
        new = [s for s in dict.fromkeys(schedules) if s not in self._plain]
        if new:
            self._plain.update(zip(new, features_of(self._operator, new, self._npu)))


def model_row(plain: Vector, unit: Vector) -> Vector:
    """Return features, along the last axis, then their ratios to the default schedule's, `unit`.

    The ratios mean the same for every operator: they carry over from one task to the next.
    """
    return np.concatenate([plain, plain / np.where(unit == 0, 1.0, unit)], axis=-1)


@dataclass(slots=True)
class Experience:
    """Results of one task: rows of features, and cycles."""

    rows: list[Vector] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)

    def add(self, row: Vector, cycles: int) -> None:
        """Append one result."""
        self.rows.append(row)
        self.cycles.append(cycles)

    def scores(self) -> Vector:
        """Return how good each result is: the best of the task is 1."""
        cycles = np.array(self.cycles, np.float64)
        return cycles.min() / cycles


class CostModel:
    """Ranks rows of features; the higher, the fewer cycles."""

    def __init__(self, seed: int) -> None:
        """Start untrained."""
        self._seed = seed
        self._booster: Any = None

    def train(self, experiences: Sequence[Experience]) -> bool:
        """Learn from tasks, each a group of the ranking; returns whether there is enough."""
        import xgboost

        groups = [found for found in experiences if len(found.rows) >= MIN_ROWS]
        if not groups:
            return False
        rows = np.concatenate([np.stack(group.rows) for group in groups])
        labels = np.concatenate([group.scores() for group in groups])
        matrix = xgboost.DMatrix(rows, label=labels, base_margin=_margin(rows))
        matrix.set_group([len(group.rows) for group in groups])
        self._booster = xgboost.train({**_PARAMETERS, "seed": self._seed}, matrix, ROUNDS)
        return True

    def predict(self, rows: Vector) -> Vector:
        """Return the scores of rows."""
        scores = self._booster.inplace_predict(
            rows, predict_type="margin", base_margin=_margin(rows)
        )
        return np.asarray(scores, np.float64)


def _margin(rows: Vector) -> Vector:
    """Return the score that a row starts from: what the model learns is how far the bound is off.

    In a pairwise ranking a difference of 1 makes one schedule 2.7 times as likely to be the better.
    """
    return -MARGIN * rows[:, _BOUND]
