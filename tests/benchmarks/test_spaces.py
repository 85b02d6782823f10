"""The spaces of real layers are large: how many distinct schedules a convolution has."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.networks import mobilenet_v2, resnet18
from benchmarks.tuner_layers import network_tasks
from codegen.bounds import lower_bounds
from codegen.measure import cycles_of
from codegen.ops.window import WindowOperator
from codegen.space import Space
from runtime_sim.npu import load

LEAST, DRAWN = 20_000, 40
DOUBT = 1e-4
"""How likely the draws of a space of fewer than LEAST points may be to look as they do."""


def test_every_convolution_of_the_networks_has_many_schedules() -> None:
    npu = load("vnpu-256")
    tasks = [*network_tasks(resnet18, npu.name), *network_tasks(mobilenet_v2, npu.name)]
    layers = [task.operator for task in tasks]
    spaces = [op.space(npu) for op in layers if isinstance(op, WindowOperator)]
    assert len(spaces) > 30
    for space in spaces:
        assert _doubt(space) < DOUBT, space.operator.describe()


def _doubt(space: Space) -> float:
    """Return the probability of as many hits as drawn, or more, where LEAST points are distinct."""
    sizes = [len(knob.values) for knob in space.knobs]
    size = int(np.prod(sizes))
    draws = 1000 if size > 100 * LEAST else 4000
    rng = np.random.default_rng(1)
    points = (tuple(point.tolist()) for point in rng.integers(0, sizes, (draws, len(sizes))))
    hits = sum(
        space.is_legal(point) and space.point_of(space.schedule(point)) == point for point in points
    )
    return _at_least(hits, draws, LEAST / size)


def _at_least(hits: int, draws: int, share: float) -> float:
    """Return the probability that `hits` draws or more succeed, each with probability `share`."""
    chance, fewer = (1 - share) ** draws, 0.0
    for k in range(hits):
        fewer += chance
        chance *= (draws - k) / (k + 1) * share / (1 - share)
    return 1 - fewer


def test_the_probability_of_many_hits() -> None:
    assert _at_least(0, 3, 0.25) == 1
    assert _at_least(1, 3, 0.25) == 1 - 0.75**3
    assert abs(_at_least(3, 3, 0.25) - 0.25**3) < 1e-12


@pytest.mark.parametrize("npu", ["vnpu-256", "vnpu-256-lowbw", "vnpu-1024"])
def test_no_schedule_of_a_network_is_below_its_bound(npu: str) -> None:
    """Layers of real sizes, in which weights and inputs hold the array up, as drawn ones do not."""
    rng = np.random.default_rng(3)
    for task in network_tasks(resnet18, npu):
        if not isinstance(task.operator, WindowOperator):
            continue
        space = task.operator.space(task.npu)
        schedules = [space.schedule(space.random(rng)) for _ in range(DRAWN)]
        bounds = lower_bounds(task.operator, schedules, task.npu)
        assert (bounds <= cycles_of(task.operator, schedules, task.npu)).all()
