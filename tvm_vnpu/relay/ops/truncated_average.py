"""An average as TVM computes it on integers: the sum divided, rounded toward zero.

The machine has no division, but a convolution whose weights are all 2 makes 2 S, and with the bias
-(n - 1) and the scale 1 / 2n it rounds half up to floor(S / n) exactly: the value lies 1 / 2n
beside each tie. With the bias n - 1 it is ceil(S / n). Toward zero is then
max(floor, min(ceil, 0)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import QuantParams, Tensor
from codegen.ops.concat import Concat
from codegen.ops.conv2d import Conv2D
from codegen.ops.depthwise import DepthwiseConv2D
from codegen.ops.eltwise import eltwise
from codegen.profiles import Profile, scaling
from codegen.profiles import profile as find_profile
from codegen.quantization import Requant
from runtime_sim import numerics
from runtime_sim.isa.fields import EltwiseOp, Rounding
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context
from tvm_vnpu.relay.ops.windows import Window

_WEIGHT = 2
_PIECE = 255
_SAME = QuantParams(1.0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Average:
    """trunc(mean over `window` of (x - zero_point) + offset) + shift, clamped to `limits`.

    `pooled`: the result, (1, rows, columns, channels). `low`: the least that a mean can be.
    """

    name: str
    names: tuple[str, ...]
    x: Tensor
    pooled: Tensor
    window: Window
    limits: tuple[int, int]
    shift: int = 0
    zero_point: int = 0
    offset: int = 0
    low: int = -(1 << 15)


def add_truncated_average(context: Context, average: Average) -> None:
    """Append the operators of an average: one convolution, or two and their maximum."""
    floor = average.limits
    if average.low >= 0:
        context.add(_sums(context, average, average.pooled, False, floor))
        return
    zero = int(np.clip(average.shift, *average.limits))
    below = replace(average.pooled, name=f"{average.name}.ceil")
    above = replace(average.pooled, name=f"{average.name}.floor")
    context.add(_sums(context, average, above, False, floor))
    context.add(_sums(context, average, below, True, (average.limits[0], zero)))
    context.add(
        eltwise(
            average.name, EltwiseOp.MAX, (above, below, average.pooled), find_profile("integer"),
            average.limits, average.names,
        )
    )  # fmt: skip


def _sums(
    context: Context, average: Average, output: Tensor, up: bool, limits: tuple[int, int]
) -> Conv2D:
    """Return the convolution that makes floor or ceil of each window's mean."""
    x, channels = average.x, average.x.hwc[2]
    height, width = average.window.size
    rows = x.hwc[0] // average.window.extent[0]  # pieces of one image lie below each other
    count = average.window.count
    rounding = count - 1 if up else 1 - count
    bias = np.full(channels, _WEIGHT * count * average.offset + rounding, np.int64)
    if np.any(np.abs(bias) >= 1 << 31):
        raise Unsupported("the sum of a window must fit int32", seen=int(bias[0]))
    requant = Requant(
        scaling(Rounding.SINGLE_UP, np.array([1 / (_WEIGHT * count)])),
        average.shift, *limits, output.dtype,
    )  # fmt: skip
    depthwise = context.npu.capabilities.depthwise_unit
    kind = DepthwiseConv2D if depthwise else Conv2D
    return kind(
        name=output.name, inputs=(x,), outputs=(output,), source_names=average.names,
        weight=np.full((channels, height * rows, width, 1), _WEIGHT, np.int8),
        bias=bias.astype(np.int32), requant=requant, in_zero_point=average.zero_point,
        weight_zero_point=np.zeros(1, np.int64), a_type=x.dtype,
        strides=average.window.strides, padding=average.window.padding, groups=channels,
    )  # fmt: skip


def rescaled(context: Context, average: Average, quant: QuantParams, profile: Profile) -> Average:
    """Return the average of elements that are first requantised to `quant` in int32.

    Their range may exceed 8 bits, so they are cut into pieces of 8 bits, stacked in rows, whose
    sum they are. Raises Unsupported for a window that is not the whole image.
    """
    x = average.x
    assert x.quant is not None
    if average.window.size != average.window.extent:
        raise Unsupported(
            "an average of part of an image must not rescale its elements",
            seen=f"scale {x.quant.scale:.6g} to {quant.scale:.6g}",
        )
    lowest, highest = INTEGER_LIMITS[x.dtype]
    ratio = scaling(profile.rounding, np.array([x.quant.scale / quant.scale]))
    ends = np.array([lowest, highest]) - x.quant.zero_point
    scaled = numerics.requantize(ends, ratio.multiplier, ratio.shift, int(ratio.rounding))
    first, last = (int(value) + quant.zero_point for value in scaled)
    pieces = max(1, -(-(last - first) // _PIECE))
    height, width, channels = x.hwc
    stacked = Tensor(
        f"{average.name}.pieces", (1, pieces * height, width, channels), x.dtype, _SAME
    )
    constants = int(ratio.multiplier[0]), int(ratio.shift[0])
    values = tuple(
        (x.quant.zero_point, *constants, 0, quant.zero_point - start + lowest, lowest, highest)
        for start in range(first, first + pieces * _PIECE, _PIECE)
    )
    context.add(
        Concat(
            name=stacked.name, inputs=(x,) * pieces, outputs=(stacked,),
            source_names=average.names, axis=0, rounding=profile.rounding, values=values,
        )
    )  # fmt: skip
    return replace(average, x=stacked, zero_point=lowest, offset=first, low=first)
