"""conv2d and dense composites: clamp(requantize(clamp(bias + op(x, w))))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm import relay

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import QuantParams
from codegen.ops.conv2d import Conv2D
from codegen.ops.dense import Dense
from codegen.ops.depthwise import DepthwiseConv2D
from codegen.profiles import Scaling
from codegen.quantization import Requant
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, Placed
from tvm_vnpu.relay.layouts import channel_axis, check_layout, ohwi_weight, per_channel
from tvm_vnpu.relay.ops import clamps
from tvm_vnpu.relay.ops.folded_pad import folded_padding
from tvm_vnpu.relay.ops.requantizing import (
    Reach,
    Requantize,
    check_range,
    read_requantize,
    requantize_scaling,
    wrapped,
)
from tvm_vnpu.relay.ops.windows import pads
from tvm_vnpu.relay.reader import check_zero_points, dtype_of, integer_type, static_shape

PRODUCTS = ("qnn.dense", "qnn.batch_matmul")
BIAS_OPERATORS = ("nn.bias_add", "add")
Vector = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """A matched composite from root to operator; `axis`: the channels of its result.

    `data`: what the operator reads, behind the padding that the composite has, if any.
    """

    root: relay.Call
    call: relay.Call
    data: relay.Expr
    pad: relay.Call | None
    requantize: Requantize
    bias: Vector
    inner: clamps.Clamp
    outer: clamps.Clamp
    axis: int


def match(context: Context, root: relay.Call, operator: str, padded: bool = False) -> Matched:
    """Return the parts of a composite around `operator`; Unsupported says what is amiss."""
    reader = context.reader
    shape = static_shape(root)
    axis = _result_axis(context, root, operator, len(shape))
    expr, outer = clamps.strip(reader, root, axis)
    requantize = read_requantize(context, reader.require(expr, "qnn.requantize"), axis)
    expr, inner = clamps.strip(reader, requantize.call.args[0], axis)
    bias = np.zeros(shape[axis], np.int64)
    biased = reader.call(expr, *BIAS_OPERATORS)
    if biased is not None:
        expr, bias = _bias(context, biased, shape[axis], axis)
    call = reader.require(expr, operator)
    if dtype_of(call) != "int32":
        raise Unsupported("the accumulator must be int32", seen=dtype_of(call))
    pad = reader.require(call.args[0], "nn.pad") if padded else None
    read = pad.args[0] if pad is not None else call.args[0]
    return Matched(root, call, read, pad, requantize, bias, inner, outer, axis)


def _result_axis(context: Context, expr: relay.Expr, operator: str, rank: int) -> int:
    """Return which axis of a composite's result is the channels: its operator's layout says."""
    if operator in PRODUCTS:
        return rank - 1
    call = context.reader.value(expr)
    while isinstance(call, relay.Call):
        if context.reader.call(call, operator) is not None:
            return channel_axis(rank, check_layout(str(call.attrs.data_layout)))
        constants = [isinstance(context.reader.value(a), relay.Constant) for a in call.args]
        call = context.reader.value(call.args[constants.index(False)])
    raise Unsupported("the composite holds another operator", seen=operator)


def _bias(
    context: Context, call: relay.Call, channels: int, axis: int
) -> tuple[relay.Expr, Vector]:
    """Return (operand, bias as one int64 per channel) of a bias addition."""
    reader, rank = context.reader, len(static_shape(call))
    index = 1 if reader.constant(call.args[1]) is not None else 0
    data = reader.require_constant(call.args[index], "the bias")
    clamps.check_same_shape(reader, call.args[1 - index], call)
    if str(call.op.name) == "nn.bias_add":
        if int(call.attrs.axis) % rank != axis:
            raise Unsupported("the bias must run along the channels", seen=int(call.attrs.axis))
        values = data.reshape(-1).astype(np.int64)
    else:
        values = per_channel(data, rank, axis)
    return call.args[1 - index], np.broadcast_to(values, channels)


def layer_fields(
    context: Context, m: Matched, name: str, weight: NDArray[np.generic], layout: str
) -> dict[str, object]:
    """Return the fields that convolutions and dense layers share."""
    reader = context.reader
    data, (_, _, x_zp, w_zp, x_scale, w_scale) = m.data, m.call.args
    quant = reader.quant(x_scale, x_zp)
    zero_points = reader.zero_points(w_zp)
    if zero_points.size not in (1, len(weight)):
        raise Unsupported("weight zero points must be one, or one per output channel")
    check_zero_points(integer_type(reader.value(m.call.args[1])), zero_points)
    context.shape(data)
    x = context.activation(data, quant, layout)
    bias = m.bias - m.requantize.in_zero_point
    scaling = requantize_scaling(m.requantize, quant.scale, reader.scales(w_scale))
    reach = _reach(weight, zero_points, quant, integer_type(reader.value(data)), bias)
    check_range(context.semantics, scaling, reach)
    low, high = result_clamp(m, scaling, reach)
    requant = Requant(scaling, m.requantize.quant.zero_point, low, high, m.requantize.dtype)
    single = np.unique(zero_points).size == 1
    return {
        "name": name,
        "inputs": (x,),
        "outputs": (context.result(name, m.root, m.requantize.quant, layout),),
        "source_names": context.names(m.root),
        "weight": weight,
        "bias": bias.astype(np.int32),  # wraps, as TVM's sum and the machine's do
        "requant": requant,
        "in_zero_point": quant.zero_point,
        "weight_zero_point": zero_points[:1] if single else zero_points,
        "a_type": x.dtype,
    }


def _reach(
    weight: NDArray[np.generic], zero_points: Vector, quant: QuantParams, dtype: str, bias: Vector
) -> Reach:
    """Return the least and the largest accumulator of each channel, over all activations."""
    ends = np.array(INTEGER_LIMITS[dtype], np.int64) - quant.zero_point
    low, high = min(int(ends[0]), 0), max(int(ends[1]), 0)  # padding adds 0
    centred = (weight.astype(np.int64) - zero_points.reshape(-1, 1, 1, 1)).reshape(len(bias), -1)
    above, below = np.maximum(centred, 0).sum(axis=1), np.minimum(centred, 0).sum(axis=1)
    return wrapped(above * low + below * high + bias, above * high + below * low + bias)


def result_clamp(m: Matched, scaling: Scaling, reach: Reach) -> tuple[int, int]:
    """Return the result's clamp: that of the accumulator, requantised, then that of the result.

    Requantisation never decreases, so clamping before it equals clamping after it at the
    requantised bounds. One clamp serves all channels if it cuts what each can reach as its own
    would: a channel of tiny weights may have a bound that it never meets.
    """
    channels = len(m.bias)
    _check_order(m, reach)
    limits = clamps.limits(m.requantize.dtype)
    requant = Requant(
        scaling, m.requantize.quant.zero_point, int(limits.low[0]), int(limits.high[0]),
        m.requantize.dtype,
    )  # fmt: skip

    def requantized(accumulator: Vector) -> Vector:
        whole = np.broadcast_to(np.clip(accumulator, *clamps.INT32), channels)
        return requant.reference(whole).astype(np.int64)

    low, high = (bound - m.requantize.in_zero_point for bound in (m.inner.low, m.inner.high))
    own = clamps.Clamp(requantized(low), requantized(high)).within(m.outer)
    least, largest = requantized(reach.low), requantized(reach.high)
    common = clamps.Clamp(own.low.min(), own.high.max())
    for end in (least, largest):
        if not np.array_equal(np.clip(end, own.low, own.high), common.of(end)):
            raise Unsupported("an activation must clamp all channels alike")
    return int(common.low), int(common.high)


def _check_order(m: Matched, reach: Reach) -> None:
    """Raise Unsupported where a sum may wrap, is clamped, and only then loses a zero point.

    The NPU subtracts the zero point with the bias, which is the same unless the two wrap apart.
    """
    zero_point = m.requantize.in_zero_point
    cuts = np.any(m.inner.low > clamps.INT32[0]) or np.any(m.inner.high < clamps.INT32[1])
    wraps = np.any(reach.magnitude + np.abs(zero_point) > clamps.INT32[1])
    if cuts and wraps and np.any(zero_point):
        raise Unsupported("a sum that wraps must not be clamped before its zero point is removed")


def convert_conv2d(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a conv2d (or depthwise) composite; Unsupported says why it cannot be."""
    return _convert_conv2d(context, match(context, root, "qnn.conv2d"), name)


def convert_padded_conv2d(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a conv2d composite that takes in the padding before it, where that is its own kind."""
    return _convert_conv2d(context, match(context, root, "qnn.conv2d", padded=True), name)


def _convert_conv2d(context: Context, m: Matched, name: str) -> Placed:
    attrs = m.call.attrs
    layout = check_layout(str(attrs.data_layout))
    if str(attrs.out_layout) not in ("", layout):
        raise Unsupported("input and output must have one layout", seen=str(attrs.out_layout))
    channels = len(m.bias)
    data = context.reader.require_constant(m.call.args[1], "weights")
    weight = ohwi_weight(data, str(attrs.kernel_layout), channels)
    fields = layer_fields(context, m, name, weight, layout)
    groups, padding = int(attrs.groups), pads(attrs.padding)
    dilation = int(attrs.dilation[0]), int(attrs.dilation[1])
    if m.pad is not None:
        zero_point = int(context.reader.zero_points(m.call.args[2])[0])
        sizes = zip(weight.shape[1:3], dilation, strict=True)
        rows, cols = ((size - 1) * step + 1 for size, step in sizes)
        padding = folded_padding(context, m.pad, layout, padding, zero_point, (rows, cols))
    in_channels = static_shape(context.reader.value(m.data))[m.axis]
    kind = DepthwiseConv2D if is_depthwise(context, groups, in_channels) else Conv2D
    operator = kind(
        strides=(int(attrs.strides[0]), int(attrs.strides[1])),
        padding=padding[:2],
        dilation=dilation,
        groups=groups,
        **fields,  # type: ignore[arg-type]
    )
    context.add(operator)
    return Placed(operator.outputs[0], layout)


def is_depthwise(context: Context, groups: int, channels: int) -> bool:
    """Return whether the depthwise unit takes it; without one it is a grouped convolution."""
    return groups > 1 and groups == channels and context.npu.capabilities.depthwise_unit


def convert_dense(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a dense composite: x (N, K), constant w (M, K)."""
    m = match(context, root, "qnn.dense")
    data = context.reader.require_constant(m.call.args[1], "weights")
    if len(static_shape(root)) != 2:
        raise Unsupported("a dense layer needs x of 2 axes", seen=static_shape(root))
    weight = np.ascontiguousarray(data)[:, None, None, :]
    operator = Dense(**layer_fields(context, m, name, weight, context.layout))  # type: ignore[arg-type]
    context.add(operator)
    return Placed(operator.outputs[0], context.layout)
