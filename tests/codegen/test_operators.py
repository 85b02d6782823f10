"""Every operator, drawn at random: reference = assembled stream = compiled C, verified and timed.

Operators are found by themselves, so a new one is tested as soon as its file is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from zlib import crc32

import numpy as np
import pytest

from codegen.borders import border_of
from codegen.ops import operators
from codegen.ops.base import Operator
from codegen.ops.concat import Concat
from codegen.ops.conv2d import Conv2D
from codegen.ops.conv2d_transpose import ConvTranspose2D, DepthwisePhase, phases
from codegen.ops.convert import Convert
from codegen.ops.depthwise import DepthwiseConv2D
from codegen.ops.eltwise import Eltwise
from codegen.ops.matmul import Matmul
from codegen.ops.move import Move
from codegen.ops.pad import Pad
from codegen.ops.pool import AveragePool, Pool
from codegen.ops.window import WindowOperator
from codegen.schedule import Schedule
from tests.codegen.drawn import NPUS, draw_case
from tests.codegen.harness import Case, check_all, reference

CASES = {"conv2d": 26, "depthwise": 15, "convert": 24, "graph": 15, "reshape": 3}
OTHERS = 12
KINDS = (*operators(), "graph")


def drawn(kind: str, npu: str) -> list[Case]:
    """Return the cases of one kind on one NPU."""
    count = CASES.get(kind, OTHERS)
    place = crc32(kind.encode()), list(NPUS).index(npu)
    return [draw_case(kind, NPUS[npu], (*place, index)) for index in range(count)]


@pytest.mark.parametrize("npu", NPUS)
@pytest.mark.parametrize("kind", KINDS)
def test_operator(kind: str, npu: str) -> None:
    check_all(drawn(kind, npu))


def _features(case: Case) -> Iterator[str]:
    yield f"stripes {min(case.stripes, 2)}"
    for schedule in case.schedules.values():
        yield schedule.order
        yield f"load ic {schedule.load_ic}"
        yield f"halo {schedule.halo}"
        yield f"weights {schedule.weights}"
        yield f"unroll {schedule.unroll}"
        yield f"buffers {min(schedule.in_buffers, 2)}"
        yield schedule.micro_kernel
    for operator in case.graph.operators:
        mode = operator.rounding_mode
        yield f"{operator.kind} {mode.name if mode is not None else 'exact'}"
        yield from _operator_features(operator, case)


def _operator_features(operator: Operator, case: Case) -> Iterator[str]:
    if isinstance(operator, ConvTranspose2D):
        yield from _transposed_features(operator)
    elif isinstance(operator, WindowOperator):
        yield from _window_features(operator, case)
    if isinstance(operator, Eltwise):
        yield f"eltwise {operator.op.name}"
        a, b = (tensor.hwc for tensor in operator.inputs)
        yield from (f"broadcast {axis}" for axis, n, m in zip("HWC", a, b) if m == 1 < n)
    if isinstance(operator, Pool):
        yield f"{operator.kind} padding {max(operator.padding) > 0}"
        yield f"{operator.kind} global {operator.window == operator.inputs[0].hwc[:2]}"
    if isinstance(operator, AveragePool):
        yield f"include_pad {operator.include_pad}"
    if isinstance(operator, Convert):
        layouts = (border_of(tensor).planar for tensor in operator.tensors)
        yield " ".join(("convert", operator.mode, *("NCHW" if p else "NHWC" for p in layouts)))
    if isinstance(operator, Matmul):
        yield from _product_features(operator, case.schedules[operator.name])
    if isinstance(operator, Concat):
        yield f"concat {'HWC'[operator.axis]}"
    if isinstance(operator, Move):
        yield f"move to {''.join('HWC'[axis] for axis in operator.axes_from)}"
        sides = zip("HWC", operator.counts, operator.inputs[0].hwc, operator.steps)
        for axis, count, size, step in sides:
            yield f"slice {axis} {count < size} {min(step, 2)}"
    if isinstance(operator, Pad):
        schedule = case.schedules[operator.name]
        tile = (schedule.tile_h, schedule.tile_w, schedule.tile_oc)
        sides = zip("HWC", operator.before, operator.inputs[0].hwc, operator.outputs[0].hwc, tile)
        for axis, before, size, whole, extent in sides:
            yield f"pad {axis} {before > 0} {before + size < whole}"
            yield f"pad tile {axis} {max(before, whole - size - before) >= extent}"


def _transposed_features(operator: ConvTranspose2D) -> Iterator[str]:
    yield f"transposed depthwise {isinstance(operator.parts()[0], DepthwisePhase)}"
    yield f"transposed grouped {operator.groups > 1 and not operator.depthwise}"
    for axis in operator.axes():
        yield f"transposed stride {axis.stride}"
        for phase in phases(axis):
            yield f"phase without taps {phase.taps == (-1,)}"
            yield f"phase past the input {len(phase.taps) > 1 and -1 in phase.taps}"
            yield f"phase crops {phase.pad < 0}"


def _product_features(operator: Matmul, schedule: Schedule) -> Iterator[str]:
    shape, (stacks, *_) = operator.shape(), operator.outputs[0].hwc
    yield f"product {operator.transpose_a} {operator.transpose_b}"
    yield f"product order {schedule.order}"
    yield f"product depth tiles {schedule.tile_ic < shape.extent[1]}"
    yield f"product records {'each' if shape.per_channel else 'one'}"
    for name, tensor in zip("ab", operator.inputs, strict=True):
        yield f"product one {name} {tensor.hwc[0] < stacks}"


def _window_features(operator: WindowOperator, case: Case) -> Iterator[str]:
    shape, weight = operator.shape(), operator.weight
    yield f"{shape.a_type} x {shape.w_type}"
    yield f"kernel {weight.shape[1]}"
    yield f"square {weight.shape[1] == weight.shape[2]}"
    yield f"weight zero points {'vector' if shape.vector_zero_points else 'one'}"
    yield f"from {shape.source.dtype} {shape.source.layout}"
    yield f"to {shape.target.dtype} {shape.target.layout}"
    yield f"clamp {operator.requant.high - operator.requant.low < 255}"
    for axis in (shape.rows, shape.cols):
        after = (axis.out - 1) * axis.stride + axis.reach - axis.pad - axis.size
        yield f"stride {axis.stride}"
        yield f"dilation {axis.dilation}"
        yield f"pads {'even' if axis.pad == after else 'uneven'}"
    schedule = case.schedules[operator.name]
    if isinstance(operator, DepthwiseConv2D):
        yield f"multiplier {operator.multiplier}"
    elif isinstance(operator, Conv2D):
        yield f"grouped {operator.groups > 1}"
        yield f"depth tiles {schedule.tile_ic < shape.group_in}"


EXPECTED = [
    *(f"conv2d {mode}" for mode in ("SINGLE_UP", "TFLITE_DOUBLE", "TFLITE_RUY", "HALF_AWAY_F64",
                                    "FLOAT_RNE", "TONEAREST")),
    *(f"{a} x {w}" for a in ("int8", "uint8") for w in ("int8", "uint8")),
    *(f"kernel {size}" for size in range(1, 8)), "square False",
    *(f"stride {stride}" for stride in (1, 2, 3)), *(f"dilation {d}" for d in (1, 2, 3)),
    "pads even", "pads uneven", "weight zero points one", "weight zero points vector",
    *(f"{way} {form}" for way in ("from", "to") for form in
      ("float32 NHWC", "float32 NCHW", "int8 NHWC", "int8 NCHW", "uint8 NHWC", "uint8 NCHW")),
    "clamp True", "clamp False", "grouped True", "depth tiles True", "packed_taps",
    "pixel_stationary",
    *(f"multiplier {m}" for m in (1, 2, 3, 4)),
    *(f"product {a} {b}" for a in (True, False) for b in (True, False)),
    *(f"product {what} {flag}" for what in ("depth tiles", "one a", "one b")
      for flag in (True, False)),
    *(f"product order {order}" for order in ("spatial_outer", "channel_outer")),
    *(f"transposed {what} {flag}" for what in ("depthwise", "grouped") for flag in (True, False)),
    *(f"transposed stride {stride}" for stride in (1, 2, 3, 4)),
    *(f"phase {what} {flag}" for what in ("without taps", "past the input", "crops")
      for flag in (True, False)),
    "product records each", "product records one",
    *(f"eltwise {op}" for op in ("ADD", "SUB", "MUL", "MIN", "MAX")),
    *(f"broadcast {axis}" for axis in "HWC"), *(f"concat {axis}" for axis in "HWC"),
    *(f"move to {order}" for order in ("HWC", "HCW", "WHC", "WCH", "CHW", "CWH")),
    *(f"slice {axis} True {step}" for axis in "HWC" for step in (1, 2)),
    *(f"pad {axis} {before} {after}" for axis in "HWC"
      for before in (True, False) for after in (True, False)),
    *(f"pad tile {axis} True" for axis in "HWC"),
    *(f"{kind} {what} True" for kind in ("max_pool", "average_pool")
      for what in ("padding", "global")), "include_pad True", "include_pad False",
    *(f"convert {mode} {a} {b}" for mode in ("move", "quantize", "dequantize", "rescale")
      for a in ("NHWC", "NCHW") for b in ("NHWC", "NCHW")),
    *(f"softmax {mode}" for mode in ("SINGLE_UP", "TFLITE_DOUBLE", "TFLITE_RUY", "FLOAT_RNE",
                                     "TONEAREST")), "lut exact",
    "stripes 1", "stripes 2", "spatial_outer", "channel_outer", "depth_outer", "load ic all",
    "load ic tile", "halo reload", "halo keep", "weights resident", "weights stream", "unroll 1",
    "unroll 2", "unroll 3", "buffers 1", "buffers 2",
]  # fmt: skip


def _is_lively(case: Case) -> bool:
    """Return whether the results differ enough for a wrong one to show."""
    return all(len(np.unique(out)) >= min(8, out.size // 4 + 1) for out in reference(case))


def test_cases_cover_what_they_should() -> None:
    cases = [case for kind in KINDS for npu in NPUS for case in drawn(kind, npu)]
    assert len(cases) >= 500
    assert sum(map(_is_lively, cases)) >= 0.9 * len(cases)
    found = Counter(feature for case in cases for feature in _features(case))
    rare = [feature for feature in EXPECTED if found[feature] < 3]
    assert rare == []
