"""conv2d and matmul composites: quantize(activation(bias add(op(dq(x), dq(w)))))."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from codegen.ops.conv2d import Conv2D
from codegen.ops.dense import Dense
from codegen.ops.depthwise import DepthwiseConv2D
from codegen.profiles import product_scaling
from codegen.quantization import Requant
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax.context import Context
from tvm_vnpu.relax.ops import activation
from tvm_vnpu.relax.reader import Dequantized, Reader, check_integer

_BIAS_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class _Matched:
    """The parts of a matched composite; `root` is its quantize."""

    root: tvm.ir.Call
    operator: tvm.ir.Call
    data: Dequantized
    weight: Dequantized
    bias: NDArray[np.int32]
    bounds: activation.Bounds


def _match(reader: Reader, root: tvm.ir.Call, operator: str, channel_axis: int) -> _Matched:
    inner, bounds = activation.strip(reader, root.args[0])
    call, bias_expr = reader.call(inner, operator), None
    if call is None:
        add = reader.call(inner, "relax.add")
        if add is None:
            raise Unsupported("the composite holds another operator", seen=operator)
        call, bias_expr = reader.call(add.args[0], operator), add.args[1]
        if call is None:
            call, bias_expr = reader.call(add.args[1], operator), add.args[0]
    assert call is not None
    data, weight = reader.dequantized(call.args[0]), reader.dequantized(call.args[1])
    if weight.data is None:
        raise Unsupported("weights must be constant")
    check_integer(weight.dtype)
    if weight.data.ndim < 2 or weight.data.size == 0:
        raise Unsupported("weights must be a matrix or filters", seen=weight.data.shape)
    channels = weight.data.shape[channel_axis]
    _check_weight_axis(weight, channel_axis)
    bias = np.zeros(channels, np.int32)
    if bias_expr is not None:
        bias = _bias(reader, bias_expr, data, weight, channels)
    return _Matched(root, call, data, weight, bias, bounds)


def _check_weight_axis(weight: Dequantized, axis: int) -> None:
    """Raise Unsupported unless parameters are per tensor or per output channel."""
    assert weight.data is not None
    rank = weight.data.ndim
    if max(weight.scale.size, weight.zero_point.size) > 1 and weight.axis % rank != axis % rank:
        raise Unsupported(
            "weight scales must run along the output channels", seen=f"axis {weight.axis}"
        )


def _bias(
    reader: Reader, expr: relax.Expr, data: Dequantized, weight: Dequantized, channels: int
) -> NDArray[np.int32]:
    """Return the bias as int32 at scale sx * sw; a bias at other scales is requantised."""
    reshape = reader.call(expr, "relax.reshape", "relax.expand_dims")
    source = reshape.args[0] if reshape is not None else expr
    scale = data.per_tensor().scale * np.broadcast_to(weight.scale, channels).astype(np.float64)
    constant = reader.constant(source)
    if constant is not None:
        real = constant.astype(np.float64).reshape(-1)
    else:
        bias = reader.dequantized(source)
        if bias.data is None:
            raise Unsupported("the bias must be constant")
        integers, own = bias.data.reshape(-1), np.broadcast_to(bias.scale, bias.data.size)
        zero_free = not np.any(bias.zero_point)
        if (
            zero_free
            and integers.size == channels
            and np.allclose(own.astype(np.float64), scale, rtol=_BIAS_TOLERANCE, atol=0)
        ):
            return integers.astype(np.int32)
        real = (integers.astype(np.float64) - bias.zero_point) * own
    if real.size not in (1, channels):
        raise Unsupported("the bias must have one value per channel", seen=f"{real.size} values")
    rounded = np.rint(np.broadcast_to(real, channels) / scale)
    if np.any(np.abs(rounded) > np.iinfo(np.int32).max):
        raise Unsupported("the bias must fit int32 at the accumulator's scale")
    return rounded.astype(np.int32)


def _common(context: Context, m: _Matched, name: str, channels: int) -> dict[str, object]:
    """Return the fields that convolutions and dense layers share."""
    quant, dtype = context.reader.quantize_params(m.root)
    x = context.activation(m.data)
    output = context.result(name, m.root, dtype, quant)
    scaling = product_scaling(
        context.profile, m.data.per_tensor().scale,
        np.broadcast_to(m.weight.scale, channels), quant.scale,
    )  # fmt: skip
    low, high = activation.clamp(m.bounds, dtype, quant)
    zero_points = m.weight.zero_point
    return {
        "name": name,
        "inputs": (x,),
        "outputs": (output,),
        "source_names": context.reader.names(m.root),
        "bias": m.bias,
        "requant": Requant(scaling, quant.zero_point, low, high, dtype),
        "in_zero_point": m.data.per_tensor().zero_point,
        "weight_zero_point": zero_points[:1] if np.unique(zero_points).size == 1 else zero_points,
        "a_type": m.data.dtype,
    }


def convert_conv2d(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a conv2d (or depthwise) composite to the graph; Unsupported says why it cannot be."""
    m = _match(context.reader, root, "relax.nn.conv2d", 0)
    attrs = m.operator.attrs
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCHW", "OIHW"):
        raise Unsupported(
            "layouts must be NCHW and OIHW", seen=f"{attrs.data_layout}, {attrs.kernel_layout}"
        )
    assert m.weight.data is not None
    weight = np.ascontiguousarray(m.weight.data.transpose(0, 2, 3, 1))
    groups, channels = int(attrs.groups), weight.shape[0]
    padding = [int(p) for p in attrs.padding]
    kind = DepthwiseConv2D if _is_depthwise(context, groups, m.data.shape[1]) else Conv2D
    context.add(
        kind(
            weight=weight,
            strides=(int(attrs.strides[0]), int(attrs.strides[1])),
            padding=(padding[0], padding[1]),
            dilation=(int(attrs.dilation[0]), int(attrs.dilation[1])),
            groups=groups,
            **_common(context, m, name, channels),  # type: ignore[arg-type]
        )
    )


def _is_depthwise(context: Context, groups: int, channels: int) -> bool:
    """Return whether the depthwise unit takes it; without one it is a grouped convolution."""
    return groups > 1 and groups == channels and context.npu.capabilities.depthwise_unit


def convert_matmul(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a dense composite: x (N, K) or (N, M, K), constant w (K, N)."""
    m = _match(context.reader, root, "relax.matmul", 1)
    assert m.weight.data is not None
    if m.weight.data.ndim != 2 or len(m.data.shape) not in (2, 3):
        raise Unsupported(
            "a matrix product needs x of 2 or 3 axes and a constant w of 2",
            seen=f"{m.data.shape} and {m.weight.data.shape}",
        )
    weight = np.ascontiguousarray(m.weight.data.T)[:, None, None, :]
    context.add(Dense(weight=weight, **_common(context, m, name, len(weight))))  # type: ignore[arg-type]
