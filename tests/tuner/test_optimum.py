"""Branch and bound finds what measuring every schedule finds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
from numpy.typing import NDArray

from codegen import conv_space
from codegen.bounds import lower_bounds
from codegen.conv_plan import ConvShape
from codegen.measure import cycles_of
from codegen.ops import operators
from codegen.ops.base import Operator
from codegen.schedule import Schedule, ScheduleError
from codegen.space import Knob
from runtime_sim.npu import NpuConfig
from tests.codegen.drawn import NPUS, TINY, source_of
from tvm_vnpu.tuner import families, optimum
from tvm_vnpu.tuner.optimum import find_optimum

FEWEST, MOST = 30, 400
KEPT = {
    "tile_h": 2, "tile_w": 2, "first_tile_h": 1, "tile_oc": 2, "tile_ic": 2, "load_tiles": 2,
    "load_ic": 1, "in_buffers": 2, "weight_buffers": 2, "out_buffers": 1, "acc_buffers": 1,
    "prefetch": 2, "unroll": 1,
}  # fmt: skip
"""How many values of its knobs a convolution keeps here: whole spaces are too large to measure."""


@pytest.fixture(autouse=True)
def few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow the spaces of convolutions."""
    whole = conv_space.knobs

    def knobs(shape: ConvShape, npu: NpuConfig) -> tuple[Knob, ...]:
        return tuple(Knob(k.name, k.values[: KEPT.get(k.name)]) for k in whole(shape, npu))

    monkeypatch.setattr(conv_space, "knobs", knobs)


def small(kind: str, npu: NpuConfig, seed: int) -> tuple[Operator, list[Schedule]]:
    """Return an operator with few schedules, and all of them: the search starts from defaults."""
    source = source_of((seed, 3))
    for _ in range(500):
        operator = operators()[kind].draw(source).parts()[0]
        height, width, channels = operator.outputs[0].hwc
        if height * width * channels > 200 or operator.rejections(npu):
            continue
        space = operator.space(npu)
        points = list(islice(space.points(), MOST + 1))
        if FEWEST <= len(points) <= MOST:
            listed = [space.schedule(point) for point in points]
            starts = operator.schedules(npu)[: optimum.STARTS]
            settled = [operator.canonical(schedule, npu) for schedule in starts]
            return operator, list(dict.fromkeys([*listed, *settled]))
    raise AssertionError(f"no small {kind} is drawn")


@pytest.mark.parametrize(("kind", "npu"), [
    ("conv2d", NPUS["vnpu-64"]), ("conv2d", TINY), ("depthwise", TINY), ("eltwise", TINY),
])  # fmt: skip
def test_the_optimum_is_that_of_all_schedules(kind: str, npu: NpuConfig) -> None:
    operator, schedules = small(kind, npu, 1)
    measured = cycles_of(operator, schedules, npu)
    found = find_optimum(operator, npu)
    assert found.proven and found.cycles == found.bound == min(measured)
    assert measured[schedules.index(found.schedule)] == found.cycles
    assert found.measured <= len(schedules)
    assert lower_bounds(operator, [found.schedule], npu)[0] <= found.cycles


def _halved(bounds: Callable[..., NDArray[np.float64]]) -> Callable[..., NDArray[np.float64]]:
    return lambda *args: bounds(*args) // 2


def test_a_search_that_ends_early_says_how_near_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of half their value prove nothing before nearly all is measured."""
    npu = NPUS["vnpu-64"]
    operator, schedules = small("conv2d", npu, 2)
    best = min(cycles_of(operator, schedules, npu))
    for module, name in ((optimum, "bounds_of_columns"), (families, "bounds_of_columns"),
                         (families, "engine_bounds")):  # fmt: skip
        monkeypatch.setattr(module, name, _halved(getattr(module, name)))
    found = find_optimum(operator, npu, limit=optimum.STARTS + 2)
    assert not found.proven
    assert found.bound < best <= found.cycles
    whole = find_optimum(operator, npu)
    assert whole.proven and whole.cycles == best
    assert len(schedules) / 2 < whole.measured <= len(schedules)


def test_a_part_of_a_space_has_its_own_optimum() -> None:
    npu = NPUS["vnpu-64"]
    operator, schedules = small("conv2d", npu, 1)
    plain = tuple(
        Knob(knob.name, ("spatial_outer",)) if knob.name == "order" else knob
        for knob in operator.knobs(npu)
    )
    measured = cycles_of(operator, schedules, npu)
    left = [c for s, c in zip(schedules, measured, strict=True) if s.order == "spatial_outer"]
    found = find_optimum(operator, npu, knobs=plain)
    assert found.proven and found.schedule.order == "spatial_outer"
    assert found.cycles == min(left) >= min(measured)


def test_a_search_ends_where_a_start_is_good_enough() -> None:
    npu = NPUS["vnpu-64"]
    operator, schedules = small("conv2d", npu, 1)
    whole = find_optimum(operator, npu)
    found = find_optimum(operator, npu, starts=[whole.schedule], enough=whole.cycles)
    assert (found.schedule, found.cycles) == (whole.schedule, whole.cycles)
    assert found.bound == 0 and not found.proven
    assert found.measured <= optimum.STARTS + 2 < len(schedules)


def test_a_part_of_a_space_without_legal_schedules_is_refused() -> None:
    npu = NPUS["vnpu-64"]
    operator, _ = small("conv2d", npu, 1)
    knobs = tuple(
        Knob(knob.name, (operator.rows * 1000,)) if knob.name == "load_tiles" else knob
        for knob in operator.knobs(npu)
    )
    with pytest.raises(ScheduleError, match="has no legal schedule on vnpu-64"):
        find_optimum(operator, npu, knobs=knobs)
