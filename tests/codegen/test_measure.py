"""Measuring without encoding: the same costs and cycles as the stream that would really run."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from codegen import controller
from codegen.bounds import lower_bound
from codegen.controller import lower_controller
from codegen.features import features
from codegen.measure import cycles, cycles_of, lone_graph, work
from codegen.ops import operators
from codegen.ops.base import Operator
from codegen.program import build_program
from codegen.schedule import Schedule, ScheduleError, Value
from runtime_sim import timing
from runtime_sim.npu import NpuConfig
from tests.codegen.drawn import NPUS, source_of

KINDS = [kind for kind in operators() if kind != "reshape"]
CASES = [(kind, npu, seed) for kind in KINDS for npu in NPUS for seed in range(2)]


def points(
    kind: str, npu: NpuConfig, seed: int, count: int
) -> tuple[Operator, list[Schedule], np.random.Generator]:
    """Return an operator (or the first part of one) that the NPU takes, and random schedules."""
    source = source_of((seed, KINDS.index(kind), 11))
    drawn = (operators()[kind].draw(source) for _ in range(200))
    operator = next(op for op in drawn if not op.rejections(npu)).parts()[0]
    space = operator.space(npu)
    schedules = [space.schedule(space.random(source.random)) for _ in range(count)]
    return operator, schedules, source.random


@pytest.mark.parametrize(("kind", "name", "seed"), CASES)
def test_costs_equal_those_of_the_encoded_stream(kind: str, name: str, seed: int) -> None:
    npu = NPUS[name]
    operator, schedules, _ = points(kind, npu, seed, 2)
    expected = []
    for schedule in schedules:
        graph = lone_graph(operator)
        words = build_program(graph, npu, {operator.name: schedule}).assemble().words
        found, decoded = work(operator, schedule, npu), timing.measure(words, npu)
        for entry in fields(timing.Work):
            np.testing.assert_array_equal(
                getattr(found, entry.name), getattr(decoded, entry.name), entry.name
            )
        expected.append(timing.simulate(words, npu).total)
        assert cycles(operator, schedule, npu) == expected[-1]
    assert cycles_of(operator, schedules, npu) == expected


def test_measuring_nothing() -> None:
    operator, _, _ = points("conv2d", NPUS["vnpu-64"], 0, 1)
    assert cycles_of(operator, (), NPUS["vnpu-64"]) == []


SIZES, COUNTS = (-1, 0, 65536), (-3, 0, 256)
ILLEGAL: dict[str, tuple[Value, ...]] = {
    **dict.fromkeys(("tile_h", "tile_w", "tile_oc", "tile_ic", "load_tiles"), SIZES),
    **dict.fromkeys(("in_buffers", "weight_buffers", "out_buffers", "acc_buffers"), COUNTS),
    **dict.fromkeys(
        ("load_ic", "halo", "order", "weights", "micro_kernel"), ("", "reload ", "none")
    ),
    "first_tile_h": (-1, 65536),
    "prefetch": (-1, 5),
    "unroll": (-1, 0, 17),
}


def test_every_knob_has_illegal_values() -> None:
    assert ILLEGAL.keys() == Schedule().to_dict().keys()


@pytest.mark.parametrize("kind", ["conv2d", "depthwise", "matmul", "max_pool"])
@pytest.mark.parametrize("knob", ILLEGAL)
def test_an_illegal_value_of_a_knob_is_refused(kind: str, knob: str) -> None:
    npu = NPUS["vnpu-64"]
    operator, (schedule,), _ = points(kind, npu, 0, 1)
    for value in ILLEGAL[knob]:
        illegal = replace(schedule, **{knob: value})  # type: ignore[arg-type]
        assert not operator.is_legal(illegal, npu)
        for ask in (cycles, lower_bound, features):
            with pytest.raises(ScheduleError, match="schedule is not legal on vnpu-64"):
                ask(operator, illegal, npu)
        with pytest.raises(ScheduleError, match="schedule is not legal on vnpu-64"):
            operator.space(npu).point_of(illegal)


def test_bursts_that_do_not_divide_the_alignment_are_measured_as_they_lie() -> None:
    npu = NPUS["vnpu-64"]
    npu = replace(npu, memories=(replace(npu.memories[0], burst=48),))
    operator, schedules, _ = points("depthwise", npu, 1, 4)
    for schedule in schedules:
        program = build_program(lone_graph(operator), npu, {operator.name: schedule})
        total = timing.simulate(program.assemble().words, npu).total
        assert cycles(operator, schedule, npu) == total


@pytest.mark.parametrize("kind", KINDS)
def test_code_filled_from_a_skeleton_is_the_kernel_s_own(kind: str) -> None:
    """Kernels that differ in tile sizes and in more: annotated in turn, and each from scratch."""
    npu = NPUS["vnpu-256"]
    operator, drawn, _ = points(kind, npu, 5, 8)
    heights = operator.knobs(npu)[0].values
    varied = (replace(schedule, tile_h=height) for schedule in drawn for height in heights[:4])
    schedules = [schedule for schedule in varied if operator.is_legal(schedule, npu)]
    kernels = [operator.lower(schedule, npu) for schedule in schedules]
    shared = [lower_controller(kernel, npu) for kernel in kernels]
    for kernel, code in zip(kernels, shared, strict=True):
        controller._annotated.cache_clear()
        assert lower_controller(kernel, npu) == code


def test_tile_sizes_alone_make_no_new_skeleton() -> None:
    npu = NPUS["vnpu-256"]
    operator = _depthwise_of_many_rows(npu)
    height, width, channels = operator.outputs[0].hwc
    whole = Schedule(tile_w=width, tile_oc=channels, in_buffers=1, out_buffers=1, acc_buffers=1)
    schedules = [replace(whole, tile_h=tile_h) for tile_h in range(2, height)]
    legal = [s for s in schedules if operator.is_legal(operator.canonical(s, npu), npu)]
    assert len(legal) >= 8
    controller._annotated.cache_clear()
    for schedule in legal:
        lower_controller(operator.lower(schedule, npu), npu)
    assert controller._annotated.cache_info().misses < len(legal) / 2


def _depthwise_of_many_rows(npu: NpuConfig) -> Operator:
    """Return a small depthwise convolution whose rows split in many ways."""
    drawn = (points("depthwise", npu, seed, 0)[0] for seed in range(50))
    return next(op for op in drawn if op.outputs[0].hwc[0] >= 10 and op.outputs[0].elements < 2000)
