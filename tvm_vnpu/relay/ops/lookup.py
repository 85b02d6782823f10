"""Operators of one tensor as look-up tables, and qnn.softmax."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relay

from codegen.graph import Tensor
from codegen.ops.lut import Lut
from codegen.ops.softmax import exact_softmax, result_scaling, shiftmax
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, Placed
from tvm_vnpu.relay.layouts import NCHW, NHWC, channel_axis
from tvm_vnpu.relay.lookup_tables import FUNCTIONS, Integers, leaky_relu_table, unary_table
from tvm_vnpu.relay.ops import clamps
from tvm_vnpu.relay.ops.requantizing import check_range, within
from tvm_vnpu.relay.reader import integer_type, static_shape

LEAKY_RELU = "qnn.leaky_relu"
SOFTMAX = "qnn.softmax"
OPERATORS = (*FUNCTIONS, LEAKY_RELU)
_LARGEST_SHARE = 128


def convert_lookup(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a unary operator as a table; the clamps after it become part of the table."""
    call, clamp = _operator(context, root, OPERATORS)
    layout = context.layout_of(call.args[0])
    source, output = _tensors(context, root, call, name, layout)
    function = str(call.op.name)
    table = clamp.of(_table(context, call, function, source, output))
    context.add(
        Lut(
            name=name, inputs=(source,), outputs=(output,), source_names=context.names(root),
            table=table.astype(output.dtype), function=function.removeprefix("qnn."),
        )
    )  # fmt: skip
    return Placed(output, layout)


def convert_softmax(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a softmax along the channels: by TVM's integer shifts in the relay profile."""
    call, clamp = _operator(context, root, (SOFTMAX,))
    layout = _softmax_layout(context, call)
    source, output = _tensors(context, root, call, name, layout)
    limits = int(clamp.low[0]), int(clamp.high[0])
    names, semantics = context.names(root), context.semantics
    if not semantics.is_relay:
        context.add(exact_softmax(name, source, output, limits, names))
        return Placed(output, layout)
    rounding = semantics.of().rounding
    check_range(semantics, result_scaling(output, rounding), within(_LARGEST_SHARE))
    context.add(shiftmax(name, source, output, rounding, limits, names))
    return Placed(output, layout)


def _operator(
    context: Context, root: relay.Call, operators: tuple[str, ...]
) -> tuple[relay.Call, clamps.Clamp]:
    """Return the QNN operator below the clamps at `root`, and these as one."""
    context.shape(root)
    axis = channel_axis(len(static_shape(root)), context.layout_of(*root.args))
    expr, clamp = clamps.strip(context.reader, root, axis)
    if np.unique(clamp.low).size > 1 or np.unique(clamp.high).size > 1:
        raise Unsupported("an activation must clamp all channels alike")
    call = context.reader.require(expr, *operators)
    integer_type(context.reader.value(call.args[0]))
    integer_type(call)
    return call, replace(clamp, low=clamp.low[:1], high=clamp.high[:1])


def _tensors(
    context: Context, root: relay.Call, call: relay.Call, name: str, layout: str
) -> tuple[Tensor, Tensor]:
    reader, args = context.reader, call.args
    source = context.activation(args[0], reader.quant(args[1], args[2]), layout)
    return source, context.result(name, root, reader.quant(args[3], args[4]), layout)


def _table(
    context: Context, call: relay.Call, function: str, source: Tensor, output: Tensor
) -> Integers:
    if function == LEAKY_RELU:
        return leaky_relu_table(float(call.attrs.alpha), source, output, context.semantics)
    return unary_table(function, source, output, context.semantics)


def _softmax_layout(context: Context, call: relay.Call) -> str:
    """Return the layout in which the softmax runs along the channels, as far as there is one."""
    shape, axis = static_shape(call), int(call.attrs.axis)
    rank = len(shape)
    axis %= rank
    if rank == 4 and axis in (1, 3):
        return NCHW if axis == 1 else NHWC
    if any(size > 1 for size in shape[3:-1]):
        raise Unsupported("a softmax takes four axes: those from the fourth on join", seen=shape)
    if rank == 4 or axis == 0 or axis != rank - 1:
        raise Unsupported(
            "a softmax must run along the channels: the last axis, or axis 1 of 4",
            seen=f"axis {axis} of {rank}",
        )
    return context.layout_of(call.args[0])
