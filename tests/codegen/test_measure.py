"""Measuring without encoding: the same costs and cycles as the stream that would really run."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from codegen import controller
from codegen.controller import lower_controller
from codegen.measure import cycles, cycles_of, lone_graph, work
from codegen.ops import operators
from codegen.ops.base import Operator
from codegen.program import build_program
from codegen.schedule import Schedule, ScheduleError
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


def test_an_illegal_schedule_is_refused() -> None:
    npu = NPUS["vnpu-64"]
    operator, (schedule,), _ = points("conv2d", npu, 0, 1)
    with pytest.raises(ScheduleError, match="schedule is not legal on vnpu-64"):
        cycles(operator, replace(schedule, tile_h=0), npu)


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
    drawn = (points("depthwise", npu, seed, 0)[0] for seed in range(50))
    operator = next(op for op in drawn if op.outputs[0].hwc[0] >= 10)
    height, width, channels = operator.outputs[0].hwc
    controller._annotated.cache_clear()
    for tile_h in range(2, height):
        schedule = Schedule(tile_h, width, channels)
        lower_controller(operator.lower(schedule, npu), npu)
    assert controller._annotated.cache_info().misses < height / 2
