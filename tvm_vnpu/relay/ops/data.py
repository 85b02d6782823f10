"""Composites that move or convert data: quantize, requantize, clip, concat, reshape."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from tvm import relay

from codegen.graph import Tensor
from codegen.ops.concat import Concat
from codegen.ops.convert import Convert, rescale_values
from codegen.profiles import scaling
from codegen.quantization import real_scale
from runtime_sim.isa.fields import Rounding
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, NotOneBatch, Placed
from tvm_vnpu.relay.layouts import NHWC, channel_axis, npu_axis
from tvm_vnpu.relay.ops import clamps
from tvm_vnpu.relay.ops.requantizing import check_range, read_requantize, within
from tvm_vnpu.relay.reader import dtype_of, integer_type, static_shape
from tvm_vnpu.relay.semantics import Semantics

RESHAPES = ("reshape", "nn.batch_flatten", "squeeze", "expand_dims")
_WIDEST = within(2 * 255)


def convert_quantize(context: Context, root: relay.Call, name: str) -> Placed:
    """Add the quantisation of a float tensor that enters the region: TVM rounds half away."""
    quant = context.reader.quant(root.args[1], root.args[2])
    integer_type(root)
    context.shape(root)
    layout = context.layout_of(root.args[0])
    source = context.float_input(root.args[0], quant, layout)
    if source.dtype != "float32":
        raise Unsupported("only float32 is quantised", seen=source.dtype)
    output = context.result(name, root, quant, layout)
    away = context.semantics.is_relay
    rounding = Rounding.HALF_AWAY_F64 if away else Rounding.FLOAT_RNE
    context.add(Convert.quantize(name, source, output, context.names(root), rounding))
    return Placed(output, layout)


def convert_dequantize(context: Context, root: relay.Call, name: str) -> Placed:
    """Add the dequantisation of a tensor that leaves the region."""
    integer_type(context.reader.value(root.args[0]))
    if dtype_of(root) != "float32":
        raise Unsupported("only float32 leaves a dequantize", seen=dtype_of(root))
    quant = context.reader.quant(root.args[1], root.args[2])
    context.shape(root)
    source = context.activation(root.args[0], quant)
    layout = context.layout_of(root.args[0])
    in_memory = layout if len(static_shape(root)) == 4 else NHWC
    output = Tensor(name, source.shape, "float32", source.quant, in_memory)
    context.add(Convert.dequantize(name, source, output, context.names(root)))
    return Placed(output, layout)


def convert_requantize(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a requantisation of int8 or uint8 of its own, and the clamps after it."""
    reader = context.reader
    context.shape(root)
    expr, clamp = clamps.strip(reader, root, -1)
    found = read_requantize(context, reader.require(expr, "qnn.requantize"), -1)
    integer_type(reader.value(found.call.args[0]))
    source = context.activation(found.call.args[0], reader.quant(*found.call.args[1:3]))
    layout = context.layout_of(found.call.args[0])
    output = context.result(name, root, found.quant, layout)
    limits = int(clamp.low[0]), int(clamp.high[0])
    check_rescale(context.semantics, source, output, found.profile.rounding)
    context.add(Convert.rescale(name, source, output, found.profile, limits, context.names(root)))
    return Placed(output, layout)


def check_rescale(semantics: Semantics, source: Tensor, output: Tensor, rounding: Rounding) -> None:
    """Raise Unsupported where TVM's requantisation of 8-bit values is not defined."""
    ratio = np.array([real_scale(source) / real_scale(output)])
    check_range(semantics, scaling(rounding, ratio), _WIDEST)


def convert_clip(context: Context, root: relay.Call, name: str) -> Placed:
    """Add clamps of their own: clip, relu, or maximum and minimum with a constant."""
    integer_type(root)
    context.shape(root)
    layout = context.layout_of(*root.args)
    axis = channel_axis(len(static_shape(root)), layout)
    inner, clamp = clamps.strip(context.reader, root, axis)
    if np.unique(clamp.low).size > 1 or np.unique(clamp.high).size > 1:
        raise Unsupported("an activation must clamp all channels alike")
    source = context.activation(inner)
    layout = context.layout_of(inner)
    output = replace(source, name=name, data=None)
    limits = int(clamp.low[0]), int(clamp.high[0])
    context.add(
        Convert.rescale(name, source, output, context.semantics.of(), limits, context.names(root))
    )
    return Placed(output, layout)


def convert_concat(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a concatenation along any axis but the batch; each input keeps or gets its scale."""
    reader, rank = context.reader, len(context.shape(root))
    fields = list(reader.value(root.args[0]).fields)
    layout = context.layout_of(*fields)
    integer_type(root)
    if str(root.op.name) == "qnn.concatenate":
        pairs = zip(
            reader.value(root.args[1]).fields, reader.value(root.args[2]).fields, strict=True
        )
        quants = [reader.quant(*pair) for pair in pairs]
        quant = reader.quant(root.args[3], root.args[4])
    else:
        first = context.activation(fields[0], None, layout)
        assert first.quant is not None
        quant, quants = first.quant, [first.quant] * len(fields)
    inputs = tuple(
        context.operand(part, own, layout, rank) for part, own in zip(fields, quants, strict=True)
    )
    if any(tensor.data is not None for tensor in inputs):
        raise Unsupported("a concatenation of constants stays on the CPU")
    output, profile = context.result(name, root, quant, layout), context.semantics.of()
    for tensor in inputs:
        check_rescale(context.semantics, tensor, output, profile.rounding)
    context.add(
        Concat(
            name=name, inputs=inputs, outputs=(output,), source_names=context.names(root),
            axis=npu_axis(int(root.attrs.axis), rank, layout), rounding=profile.rounding,
            values=tuple(rescale_values(x, output, profile) for x in inputs),
        )
    )  # fmt: skip
    return Placed(output, layout)


def convert_reshape(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a reshape that keeps the batch, by way of the order that Relay has in memory."""
    integer_type(root)
    before, after = context.shape(root.args[0]), static_shape(root)
    kept = before[:1] == after[:1] and math.prod(before) == math.prod(after)
    if not context.whole and not kept:
        raise NotOneBatch("a reshape must keep the batch", seen=f"{before} to {after}")
    source, layout = context.activation(root.args[0]), context.layout_of(root.args[0])
    layout = layout if len(before) == 4 else NHWC
    into = context.layout_of(root)
    output = context.reinterpreted(source, layout, after, into, name)
    last = context.operators.pop()
    context.add(replace(last, source_names=context.names(root)))
    return Placed(output, into)
