"""Pools: maxima of raw integers, and averages as TVM computes them on integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import relay

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import QuantParams, Tensor, quant_of
from codegen.ops.convert import Convert
from codegen.ops.pool import MaxPool, average_pool
from codegen.ops.reshape import Reshape
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, Placed
from tvm_vnpu.relay.layouts import npu_shape
from tvm_vnpu.relay.ops import clamps
from tvm_vnpu.relay.ops.data import check_rescale
from tvm_vnpu.relay.ops.folded_pad import folded_padding
from tvm_vnpu.relay.ops.pieces import add_pieces
from tvm_vnpu.relay.ops.truncated_average import Average, add_truncated_average, rescaled
from tvm_vnpu.relay.ops.windows import AVERAGES, MAXIMA, Piece, Window, pads, read_pieces
from tvm_vnpu.relay.reader import integer_type, static_shape

Quants = tuple[QuantParams, QuantParams]


def convert_max_pool(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a max pool of raw integers, and the clamps after it."""
    expr, clamp = clamps.strip(context.reader, root, -1)
    call = context.reader.require(expr, *MAXIMA)
    return _add_max_pool(context, root, name, clamp, call.args[0], read_pieces(context, call))


def convert_padded_max_pool(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a max pool that takes in the padding before it, where that is the least value."""
    expr, clamp = clamps.strip(context.reader, root, -1)
    call = context.reader.require(expr, "nn.max_pool2d")
    pad = context.reader.require(call.args[0], "nn.pad")
    (piece,) = read_pieces(context, call)[0]
    window, least = piece.window, INTEGER_LIMITS[integer_type(root)][0]
    own = pads(call.attrs.padding)
    sides = folded_padding(context, pad, window.layout, own, least, window.size)
    height, width = npu_shape(static_shape(context.reader.value(pad.args[0])), window.layout)[1:3]
    piece = replace(piece, window=replace(window, extent=(height, width), padding=sides[:2]))
    return _add_max_pool(context, root, name, clamp, pad.args[0], ((piece,),))


def _add_max_pool(
    context: Context, root: relay.Call, name: str, clamp: clamps.Clamp, data: relay.Expr,
    pieces: Sequence[Sequence[Piece]],
) -> Placed:  # fmt: skip
    integer_type(root)
    layout = pieces[0][0].window.layout
    context.shape(data)
    x = context.activation(data, None, layout)
    output = context.result(name, root, quant_of(x), layout)
    names, limits = context.names(root), (int(clamp.low[0]), int(clamp.high[0]))

    def add(part: Tensor, pooled: Tensor, window: Window) -> None:
        context.add(
            MaxPool(
                name=pooled.name, inputs=(part,), outputs=(pooled,), source_names=names,
                window=window.size, strides=window.strides, padding=window.padding, clamp=limits,
            )
        )  # fmt: skip

    add_pieces(context, pieces, x, output, names, add)
    return Placed(output, layout)


@dataclass(frozen=True, slots=True, eq=False)
class _Matched:
    """An average: what it reads, and the (input, output) parameters of requantisations.

    `source`: of each element before, None where raw integers are averaged; `target`: of the result.
    """

    call: relay.Call
    data: relay.Expr
    source: Quants | None
    target: Quants | None
    attrs: tvm.ir.Attrs | None


def _match(context: Context, root: relay.Call) -> _Matched:
    reader = context.reader
    direct = reader.call(root, "qnn.avg_pool2d")
    if direct is not None:
        args = direct.args
        own = reader.quant(*args[1:3]), reader.quant(*args[3:5])
        return _Matched(direct, args[0], own if own[0] != own[1] else None, None, None)
    outer = reader.call(root, "qnn.requantize")
    target: Quants | None = None
    inner: relay.Expr = root
    if outer is not None:
        target, inner = _quants(context, outer), outer.args[0]
    narrowed = reader.call(inner, "cast")
    inner = narrowed.args[0] if narrowed is not None else inner
    call = reader.require(inner, *AVERAGES)
    widened = reader.require(call.args[0], "cast", "qnn.requantize")
    rescales = str(widened.op.name) == "qnn.requantize"
    attrs = widened.attrs if rescales else outer.attrs if outer is not None else None
    source = _quants(context, widened) if rescales else None
    return _Matched(call, widened.args[0], source, target, attrs)


def _quants(context: Context, call: relay.Call) -> Quants:
    return context.reader.quant(*call.args[1:3]), context.reader.quant(*call.args[3:5])


def convert_average(context: Context, root: relay.Call, name: str) -> Placed:
    """Add an average pool, or a mean over rows and columns."""
    m = _match(context, root)
    integer_type(context.reader.value(m.data))
    dtype, pieces = integer_type(root), read_pieces(context, m.call)
    layout = pieces[0][0].window.layout
    quant = m.source[0] if m.source else m.target[0] if m.target else None
    x = context.activation(m.data, quant, layout)
    out_quant = m.target[1] if m.target else m.source[1] if m.source else quant_of(x)
    rows, cols = sum(line[0].out[0] for line in pieces), sum(p.out[1] for p in pieces[0])
    pooled = Tensor(name, (1, rows, cols, x.hwc[2]), dtype, out_quant)

    def add(part: Tensor, pooled: Tensor, window: Window) -> None:
        if context.semantics.is_relay:
            _as_tvm(context, m, part, pooled, window, root)
        else:
            _as_profile(context, part, pooled, window, root)

    add_pieces(context, pieces, x, pooled, context.names(root), add)
    output = context.result(f"{name}.shape", root, out_quant, layout)
    if output.shape == pooled.shape:
        return Placed(pooled, layout)
    context.add(Reshape(name=output.name, inputs=(pooled,), outputs=(output,)))
    return Placed(output, layout)


def _as_profile(
    context: Context, x: Tensor, pooled: Tensor, window: Window, root: relay.Call
) -> None:
    """Append the average as another profile than TVM's has it: rescaled in one rounding."""
    fields: dict[str, object] = {
        "name": pooled.name, "inputs": (x,), "outputs": (pooled,),
        "source_names": context.names(root), "window": window.size, "strides": window.strides,
        "padding": window.padding, "include_pad": window.include_pad,
    }  # fmt: skip
    profile = context.semantics.profile
    context.add(average_pool(fields, profile, INTEGER_LIMITS[pooled.dtype]))


def _as_tvm(
    context: Context, m: _Matched, x: Tensor, pooled: Tensor, window: Window, root: relay.Call
) -> None:
    """Append the average as TVM lowers it: integers summed, divided, rounded toward zero."""
    if not window.full:
        raise Unsupported(
            "all windows of an average must count equally many elements: padding is not counted",
            seen=f"window {window.size}, padding {window.padding}",
        )
    profile = context.semantics.of(m.attrs)
    name, names = pooled.name, context.names(root)
    low = INTEGER_LIMITS[x.dtype][0]
    average = Average(name, names, x, pooled, window, INTEGER_LIMITS[pooled.dtype], low=low)
    if m.source is not None:
        check_rescale(context.semantics, x, replace(x, quant=m.source[1]), profile.rounding)
        average = rescaled(context, average, m.source[1], profile)
    if m.target is None:
        if m.source is not None and str(m.call.op.name) != "qnn.avg_pool2d":
            raise Unsupported("a mean of rescaled elements must be requantised")
        add_truncated_average(context, average)
        return
    before, after = m.target
    if before.scale == after.scale:
        shift = after.zero_point - before.zero_point
        add_truncated_average(context, replace(average, shift=shift))
        return
    if m.source is not None:
        raise Unsupported("a mean must not rescale both its elements and its result")
    inner = replace(pooled, name=f"{name}.mean", dtype=x.dtype, quant=before)
    limits = INTEGER_LIMITS[x.dtype]
    add_truncated_average(context, replace(average, name=inner.name, pooled=inner, limits=limits))
    check_rescale(context.semantics, inner, pooled, profile.rounding)
    context.add(Convert.rescale(name, inner, pooled, profile, None, names))
