"""Bring matrix products of Q/DQ graphs to the form that FakeQuantizationToInteger understands.

The ONNX importer transposes a dequantised weight, does not say how many units a product has, and
folds leading axes of x by reshapes. The pass does not move the axis of scales with a transposition,
crashes without the number of units, and takes no reshape between a product and its bias.
"""

from __future__ import annotations

import numpy as np
from tvm import relay

from tvm_vnpu.relay.reader import known_shape, static_shape
from tvm_vnpu.relay.rewrite import operator_name

_PRODUCTS = ("nn.dense", "nn.batch_matmul")
_SUNK_THROUGH = ("add", "nn.relu", "clip", "qnn.quantize")


def transposed_constant(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return the transposition of a (dequantised) constant as a (dequantised) constant."""
    if operator_name(old) != "transpose":
        return new
    source = new.args[0]
    if isinstance(source, relay.Constant):
        return _transposed(source, old)
    if operator_name(source) != "qnn.dequantize" or not isinstance(source.args[0], relay.Constant):
        return new
    data, scale, zero_point = source.args
    rank = len(data.data.shape)
    axis = _order(old, rank).index(int(source.attrs.axis) % rank)
    call = relay.qnn.op.dequantize(
        _transposed(data, old), scale, zero_point, axis, source.attrs.out_dtype
    )
    return relay.Call(call.op, call.args, call.attrs, call.type_args, source.span)


def sized_product(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return a dense layer that says how many units it has."""
    weight = known_shape(old.args[1]) if operator_name(old) == "nn.dense" else None
    if weight is None or old.attrs.units is not None:
        return new
    sized = relay.nn.dense(*new.args, units=weight[0], out_dtype=str(old.attrs.out_dtype))
    return relay.Call(sized.op, sized.args, sized.attrs, sized.type_args, old.span)


def plain_batch_matmul(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return a batched product with its transpositions spelled out, but for that of y.

    The pass forgets its flags: x is then taken as it is, y as transposed.
    """
    if operator_name(old) != "nn.batch_matmul":
        return new
    transpose_a, transpose_b = bool(old.attrs.transpose_a), bool(old.attrs.transpose_b)
    if not transpose_a and transpose_b:
        return new
    x, y = new.args
    x = relay.transpose(x, (0, 2, 1)) if transpose_a else x
    y = y if transpose_b else relay.transpose(y, (0, 2, 1))
    call = relay.nn.batch_matmul(x, y, out_dtype=str(old.attrs.out_dtype))
    return relay.Call(call.op, call.args, call.attrs, call.type_args, old.span)


def sunk_reshape(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return bias, activation or quantisation of a reshaped product as a reshape of their result.

    Operands beside the product must be scalars or run along the last axis.
    """
    if operator_name(old) not in _SUNK_THROUGH:
        return new
    places = [i for i, arg in enumerate(new.args) if _is_reshaped_product(arg)]
    if len(places) != 1 or not _keeps_last_axis(old, places[0]):
        return new
    reshaped = new.args[places[0]]
    args = list(new.args)
    args[places[0]] = reshaped.args[0]
    attrs = new.attrs
    if operator_name(old) == "qnn.quantize":
        inner = relay.qnn.op.quantize(*args, axis=-1, out_dtype=attrs.out_dtype)
        attrs = inner.attrs
    inner = relay.Call(new.op, args, attrs, new.type_args, old.span)
    return relay.reshape(inner, static_shape(old))


def _is_reshaped_product(expr: relay.Expr) -> bool:
    if operator_name(expr) != "reshape":
        return False
    inner = expr.args[0]
    while operator_name(inner) in _SUNK_THROUGH:
        inner = next((a for a in inner.args if operator_name(a)), inner.args[0])
    return operator_name(inner) in _PRODUCTS


def _keeps_last_axis(old: relay.Call, place: int) -> bool:
    shape = known_shape(old)
    if shape is None or known_shape(old.args[place]) != shape or len(shape) < 2:
        return False
    beside = [known_shape(arg) for i, arg in enumerate(old.args) if i != place]
    return all(
        other is not None and (np.prod(other, dtype=np.int64) == 1 or other == shape[-1:])
        for other in beside
    )


def _order(call: relay.Call, rank: int) -> list[int]:
    axes = call.attrs.axes
    return list(range(rank))[::-1] if axes is None else [int(axis) % rank for axis in axes]


def _transposed(constant: relay.Constant, call: relay.Call) -> relay.Constant:
    data = constant.data.numpy()
    return relay.const(np.ascontiguousarray(data.transpose(_order(call, data.ndim))))
