"""Simulated annealing over a space: many chains at once, scored in batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from codegen.space import Point
from tvm_vnpu.tuner.searchers.base import Subject

Score = Callable[[Sequence[Point]], NDArray[np.float64]]
"""The higher, the better."""

CHAINS, STEPS = 96, 16
_HOT, _COLD = 1.0, 0.05
"""Temperatures at both ends, in standard deviations of the first points' scores."""


def anneal(
    subject: Subject, score: Score, starts: Sequence[Point], count: int, seen: Collection[Point]
) -> list[Point]:
    """Return up to `count` points that are not in `seen`, the best that the chains met.

    `starts`: where the first chains begin; the rest begin at random.
    """
    space, rng = subject.space, subject.rng
    points = list(starts[:CHAINS])
    points += [space.random(rng) for _ in range(CHAINS - len(points))]
    scores = score(points)
    met = dict(zip(points, scores.tolist()))
    spread = float(scores.std()) or 1.0
    for temperature in np.geomspace(_HOT, _COLD, STEPS) * spread:
        moved = [space.neighbour(point, rng) for point in points]
        news = score(moved)
        met.update(zip(moved, news.tolist()))
        with np.errstate(over="ignore"):
            accept = rng.random(CHAINS) < np.exp((news - scores) / temperature)
        points = [new if yes else old for new, old, yes in zip(moved, points, accept)]
        scores = np.where(accept, news, scores)
    ranked = sorted((point for point in met if point not in seen), key=lambda p: (-met[p], p))
    return ranked[:count]
