"""ONNX operators imported in the form the vNPU patterns match, where TVM's own converter differs.

A converter takes the builder, the Relax inputs and the parsed attributes. It returns an expression,
or None to continue with TVM's converter on the attributes it has put in order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from runtime_sim.errors import VnpuError
from tvm_vnpu.quantize.qparams import quantize_array
from tvm_vnpu.relax.names import call_name
from tvm_vnpu.relax.naming_builder import NamingBlockBuilder, ZeroPad
from tvm_vnpu.relax.rewrite import is_call

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")

Attrs = dict[str, Any]
Inputs = MutableSequence[relax.Expr | None]
Converter = Callable[[NamingBlockBuilder, Inputs, Attrs], "relax.Expr | None"]


def constant_array(expr: relax.Expr | None) -> np.ndarray | None:
    """Return the value of a Relax constant, or None for anything else."""
    return expr.value.numpy() if isinstance(expr, tvm.ir.GenericConst) else None


def _input(inputs: Inputs, index: int) -> relax.Expr | None:
    return inputs[index] if index < len(inputs) else None


def _scalar(expr: relax.Expr | None) -> float | None:
    value = constant_array(expr)
    return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None


def _static_shape(expr: relax.Expr) -> list[int | None]:
    return [int(dim) if hasattr(dim, "value") else None for dim in expr.ty.shape]


def _clipped(data: relax.Expr, low: float, high: float) -> relax.Expr:
    """Return data limited to [low, high]; when low > high the result is high, as in ONNX."""
    low = -math.inf if math.isnan(low) else low
    high = math.inf if math.isnan(high) else high
    dtype = str(data.ty.dtype)
    if low == -math.inf and high == math.inf:
        return data
    if high == math.inf and low == 0.0 and dtype.startswith("float"):
        return relax.op.nn.relu(data)
    if high == math.inf:
        return relax.op.maximum(data, relax.const(low, dtype))
    if low == -math.inf:
        return relax.op.minimum(data, relax.const(high, dtype))
    return relax.op.clip(data, min(low, high), high)


def convert_clip(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> relax.Expr | None:
    """Import Clip with constant bounds, from attributes or inputs, as one operator."""
    data = inputs[0]
    bounds = []
    for index, name, default in ((1, "min", -math.inf), (2, "max", math.inf)):
        bound = _input(inputs, index)
        value = float(attrs.get(name, default)) if bound is None else _scalar(bound)
        if value is None:
            return None
        bounds.append(value)
    return _clipped(data, bounds[0], bounds[1])


def _extremum(
    builder: NamingBlockBuilder, inputs: Inputs, name: str, operator: Callable[..., relax.Expr]
) -> relax.Expr | None:
    if len(inputs) != 2 or all(isinstance(item, tvm.ir.GenericConst) for item in inputs):
        return None
    data, bound = inputs if _scalar(inputs[1]) is not None else (inputs[1], inputs[0])
    limit = _scalar(bound)
    producer = builder.lookup_binding(data) if isinstance(data, relax.Var) else None
    if name == "min" and limit is not None and is_call(producer, "relax.nn.relu"):
        return _clipped(producer.args[0], 0.0, limit)
    if name == "min" and limit is not None and is_call(producer, "relax.maximum"):
        low = _scalar(producer.args[1])
        if low is not None:
            return _clipped(producer.args[0], low, limit)
    if limit == 0.0 and name == "max":
        return relax.op.nn.relu(data)
    return operator(data, bound)


def convert_min(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> relax.Expr | None:
    """Import Min of two; Min(Relu(x), 6) is a clip."""
    return _extremum(builder, inputs, "min", relax.op.minimum)


def convert_max(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> relax.Expr | None:
    """Import Max of two; Max(x, 0) is relu."""
    return _extremum(builder, inputs, "max", relax.op.maximum)


def convert_sum(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> relax.Expr | None:
    """Import Sum as a chain of additions."""
    if all(isinstance(item, tvm.ir.GenericConst) for item in inputs):
        return None
    return functools.reduce(relax.op.add, inputs)


def explicit_pads(mode: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the padding (before, after) of an ONNX auto_pad mode along one axis."""
    if mode == "VALID":
        return 0, 0
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    small, large = total // 2, total - total // 2
    return (small, large) if mode == "SAME_UPPER" else (large, small)


def _resolve_auto_pad(data: relax.Expr, kernel: Sequence[int | None], attrs: Attrs) -> None:
    """Turn auto_pad into explicit pads: all begins, then all ends, as ONNX orders them."""
    mode = bytes(attrs.pop("auto_pad", b"NOTSET")).decode("utf-8")
    if mode not in _AUTO_PADS:
        raise VnpuError(
            f"node {attrs['tvm_custom']['name']!r} has an unknown auto_pad",
            seen=mode,
            limit=f"one of {', '.join(_AUTO_PADS)}",
        )
    if mode == "NOTSET":
        return
    shape = _static_shape(data)
    spatial = shape[2:]
    if mode != "VALID" and None in spatial:
        raise VnpuError(
            f"node {attrs['tvm_custom']['name']!r} pads by {mode}",
            seen=f"input shape ({', '.join('?' if s is None else str(s) for s in shape)})",
            limit="height and width have to be known",
            fix="give the input shapes with --shape",
        )
    rank = len(spatial)
    strides = attrs.get("strides", [1] * rank)
    dilations = attrs.get("dilations", [1] * rank)
    pairs = [
        explicit_pads(mode, int(size or 0), int(kernel[axis] or 1), strides[axis], dilations[axis])
        for axis, size in enumerate(spatial)
    ]
    attrs["pads"] = tuple(before for before, _ in pairs) + tuple(after for _, after in pairs)


def convert_conv(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> None:
    """Make the padding of Conv explicit and take over a Pad of zeros before it."""
    kernel = _static_shape(inputs[1])[2:]
    if list(attrs.get("kernel_shape", kernel)) != kernel:
        raise VnpuError(
            f"node {attrs['tvm_custom']['name']!r} has a kernel_shape that is not its weight's",
            seen=tuple(attrs["kernel_shape"]),
            limit=tuple(kernel),
            fix="check that the model file is complete",
        )
    _resolve_auto_pad(inputs[0], kernel, attrs)
    producer = builder.lookup_binding(inputs[0]) if isinstance(inputs[0], relax.Var) else None
    pad = builder.zero_pads.get(call_name(producer) or "")
    if pad is not None:
        inputs[0] = pad.data
        own = attrs.get("pads", (0,) * len(pad.pads))
        attrs["pads"] = tuple(outer + inner for outer, inner in zip(pad.pads, own))


def convert_pad(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> None:
    """Remember a Pad of zeros around the spatial axes; it stays where no Conv takes it over."""
    given = constant_array(_input(inputs, 1))
    pads = attrs.get("pads") if given is None else tuple(int(pad) for pad in given)
    value = attrs.get("value", 0.0) if _input(inputs, 2) is None else _scalar(_input(inputs, 2))
    data = inputs[0]
    if data is None:
        return
    rank = len(data.ty.shape)
    simple = bytes(attrs.get("mode", b"constant")) == b"constant" and _input(inputs, 3) is None
    if pads is None or not simple or value != 0.0 or len(pads) != 2 * rank or min(pads) < 0:
        return
    if not any((*pads[:2], *pads[rank : rank + 2])):
        spatial = (*pads[2:rank], *pads[rank + 2 :])
        builder.zero_pads[builder.node_name] = ZeroPad(data, spatial)


def convert_pool(builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs) -> None:
    """Make the padding of a pooling operator explicit."""
    _resolve_auto_pad(inputs[0], attrs["kernel_shape"], attrs)


def convert_quantize(
    builder: NamingBlockBuilder, inputs: Inputs, attrs: Attrs
) -> relax.Expr | None:
    """Quantise a constant weight at import, so that it arrives as integers."""
    values, scale, zero_point = (constant_array(_input(inputs, index)) for index in range(3))
    if values is None or scale is None or zero_point is None or scale.size == 0:
        return None
    if zero_point.dtype.kind not in "iu" or attrs.get("block_size", 0):
        return None
    shape = [1] * values.ndim
    if scale.size > 1:
        shape[attrs.get("axis", 1) if values.ndim > 1 else 0] = scale.size
    quantized = quantize_array(values, scale.reshape(shape), zero_point.reshape(shape))
    return relax.const(quantized.reshape(values.shape))


CONVERTERS: dict[str, Converter] = {
    "AveragePool": convert_pool,
    "Clip": convert_clip,
    "Conv": convert_conv,
    "Max": convert_max,
    "MaxPool": convert_pool,
    "Min": convert_min,
    "Pad": convert_pad,
    "QuantizeLinear": convert_quantize,
    "Sum": convert_sum,
}
