"""Random cases: operators, graphs, NPUs and schedules, all from one seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from codegen.graph import NpuGraph, Tensor
from codegen.ops import operators
from codegen.ops.base import Operator
from codegen.ops.draw import CaseSource
from codegen.schedule import Schedule, ScheduleError
from runtime_sim.npu import Memory, NpuConfig, load
from tests.codegen.harness import Case

TINY = NpuConfig("tiny-4x8", array_rows=4, array_cols=8, lanes=8, spm_kib=8, acc_kib=2)
ODD = NpuConfig(
    "odd-6x5", array_rows=6, array_cols=5, lanes=7, spm_kib=24, acc_kib=5, queue_depth=2,
    depthwise_rate=0.3, instruction_memory=200,
    memories=(Memory("slow", 1.5, 40, 16), Memory("fast", 12, 7, 64)),
    region_memory=(1, 1, 0, 0) + (0,) * 12,
)  # fmt: skip
NPUS = {npu.name: npu for npu in (*map(load, ("vnpu-64", "vnpu-256", "vnpu-1024", "vnpu-4096")),
                                  TINY, ODD)}  # fmt: skip

WITHOUT_KERNEL = ("reshape", "concat", "conv2d_transpose")
"""Operators that move nothing, or whose parts have the kernels."""


def source_of(seed: Sequence[int]) -> CaseSource:
    """Return the dice of one case."""
    return CaseSource(np.random.default_rng(list(seed)))


def draw_case(kind: str, npu: NpuConfig, seed: Sequence[int]) -> Case:
    """Return a case of one operator that the NPU can take, or of a graph."""
    source = source_of(seed)
    for _ in range(100):
        graph = _graph(source, npu) if kind == "graph" else _lone(kind, source)
        if graph is not None and not any(op.rejections(npu) for op in graph.operators):
            break
    else:
        raise AssertionError(f"{npu.name} takes no {kind} drawn from seed {seed}")
    parts = [part for op in graph.operators if not op.is_alias for part in op.parts()]
    schedules = {part.name: _schedule(part, npu, source) for part in parts}
    inputs = [source.values(tensor) for tensor in graph.inputs]
    name = f"{kind} {'.'.join(map(str, seed))}"
    return Case(name, graph, npu, inputs, schedules, source.pick(1, 1, 1, 2, 3))


def _lone(kind: str, source: CaseSource) -> NpuGraph:
    operator = operators()[kind].draw(source)
    inputs = tuple({id(tensor): tensor for tensor in operator.inputs}.values())
    return NpuGraph("lone", (operator,), inputs, operator.outputs, "drawn")


def _graph(source: CaseSource, npu: NpuConfig) -> NpuGraph | None:
    """Return a graph of two to six operators, each reading what earlier ones made."""
    chain: list[Operator] = []
    made: list[Tensor] = []
    size = source.integer(2, 6)
    for index in range(size):
        given = [made[-1], *made[:-1]] if made else []
        last = index + 1 == size
        step = replace(source, given=given, border_in=not made, border_out=last)
        operator = _fitting(step, npu, "dense" if last and source.chance(0.3) else None)
        if operator is None:
            return None
        chain.append(operator)
        made += operator.outputs
    read = {id(tensor) for operator in chain for tensor in operator.inputs}
    fresh = {id(t): t for op in chain for t in op.inputs if all(t is not m for m in made)}
    loose = tuple(t for t in made if id(t) not in read or t is made[-1])
    extra = [t for t in made if id(t) in read and source.chance(0.1)]
    return NpuGraph("drawn", tuple(chain), tuple(fresh.values()), (*loose, *extra), "drawn")


def _fitting(source: CaseSource, npu: NpuConfig, kind: str | None) -> Operator | None:
    kinds = list(operators())
    if source.given and len(source.given[0].shape) != 4:
        kinds = ["dense", "eltwise", "concat"]
    for _ in range(100):
        operator = operators()[kind or source.pick(*kinds)].draw(source)
        image = operator.outputs[0]
        usable = image.dtype != "float32" and image.layout == "NHWC" or source.border_out
        if usable and not operator.rejections(npu):
            return operator
    return None


def _schedule(operator: Operator, npu: NpuConfig, source: CaseSource) -> Schedule:
    """Return the default schedule, a point of the space, or one with tiles of any size."""
    if source.chance(0.2):
        return operator.schedules(npu)[0]
    space = operator.space(npu)
    chosen = space.schedule(space.random(source.random))
    if source.chance(0.5):
        return chosen
    height, width, channels = operator.outputs[0].hwc
    for _ in range(10):
        tiles = source.integer(1, height), source.integer(1, width), source.integer(1, channels)
        odd = replace(chosen, tile_h=tiles[0], tile_w=tiles[1], tile_oc=tiles[2], unroll=1)
        odd = replace(odd, first_tile_h=source.integer(0, odd.tile_h - 1))
        odd = replace(odd, tile_ic=source.integer(1, chosen.tile_ic))
        try:
            operator.lower(odd, npu)
        except ScheduleError:
            continue
        chosen = odd
        break
    return replace(chosen, unroll=source.pick(1, 2, 2, 3))
