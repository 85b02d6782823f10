"""Lower bounds: admissible on random schedules, and exact where they claim to be."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.bounds import columns_of, lower_bound, lower_bounds
from codegen.conv_bounds import conv_bounds
from codegen.conv_costs import input_window, tile_windows
from codegen.measure import cycles_of
from codegen.ops.base import Operator
from codegen.ops.window import WindowOperator
from codegen.schedule import Schedule
from codegen.tiles import Axis
from runtime_sim.npu import NpuConfig, load
from tests.codegen.drawn import NPUS
from tests.codegen.test_measure import CASES, points


@pytest.mark.parametrize(("kind", "name", "seed"), CASES)
def test_no_schedule_is_below_its_bound(kind: str, name: str, seed: int) -> None:
    npu = NPUS[name]
    operator, schedules, _ = points(kind, npu, seed + 50, 6)
    bounds, measured = lower_bounds(operator, schedules, npu), cycles_of(operator, schedules, npu)
    for schedule, bound, cycles in zip(schedules, bounds.tolist(), measured, strict=True):
        assert 0 < bound <= cycles, (operator, schedule)
    assert lower_bound(operator, schedules[0], npu) == bounds[0]


def test_bounds_come_near() -> None:
    """A convolution that fits the array well: its best schedules run at their bound."""
    npu = load("vnpu-256")
    operator = _plain_convolution(npu)
    best = operator.schedules(npu)[:20]
    ratio = np.array(cycles_of(operator, best, npu)) / lower_bounds(operator, best, npu)
    assert 1 <= ratio.min() < 1.02


def _plain_convolution(npu: NpuConfig) -> Operator:
    for seed in range(200):
        operator, _, _ = points("conv2d", npu, seed, 0)
        height, width, channels = operator.outputs[0].hwc
        if min(height, width) >= 8 and channels >= 16 and operator.inputs[0].hwc[2] >= 16:
            return operator
    raise AssertionError("no convolution of that size is drawn")


def test_bounds_of_nothing() -> None:
    npu = load("vnpu-256")
    operator, _, _ = points("conv2d", npu, 0, 0)
    assert lower_bounds(operator, (), npu).shape == (0,)


def test_fewer_buffers_never_lower_a_bound() -> None:
    npu = load("vnpu-256")
    operator = _plain_convolution(npu)
    assert isinstance(operator, WindowOperator)
    schedule = operator.schedules(npu)[0]
    columns = columns_of([schedule] * 3)
    names = ("in_buffers", "weight_buffers", "out_buffers", "acc_buffers")
    rising = dict(columns) | {name: np.array([1, 2, 3]) for name in names}
    bounds = conv_bounds(operator.shape(), npu, rising).all
    assert bounds[0] > bounds[1] >= bounds[2]


def test_tiles_of_an_axis() -> None:
    assert tile_windows(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert tile_windows(10, 4, 1) == [(0, 1), (1, 5), (5, 9), (9, 10)]
    assert tile_windows(3, 4, 1) == [(0, 3)]
    assert input_window(Axis(10, 5, 3, 2, 1, 1), (0, 2)) == (0, 4)
    assert input_window(Axis(10, 5, 3, 2, 1, 1), (4, 5)) == (7, 10)


def test_columns_have_an_entry_per_schedule() -> None:
    columns = columns_of([Schedule(tile_h=3), Schedule(tile_h=5, order="channel_outer")])
    assert columns["tile_h"].tolist() == [3, 5]
    assert columns["order"].tolist() == ["spatial_outer", "channel_outer"]
