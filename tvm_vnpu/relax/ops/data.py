"""Composites that move or convert data: quantize, dequantize, clip, concat, reshape."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from codegen.graph import QuantParams, Tensor
from codegen.ops.concat import Concat
from codegen.ops.convert import Convert, rescale_values
from codegen.ops.reshape import Reshape
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax.context import Context, npu_shape
from tvm_vnpu.relax.ops import activation
from tvm_vnpu.relax.reader import static_shape

RESHAPES = ("relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims")
_ROW_COLUMN_CHANNEL = {2: {1: 2}, 3: {1: 1, 2: 2}, 4: {1: 2, 2: 0, 3: 1}}
"""rank -> Relax axis -> axis of (H, W, C)."""


def convert_quantize(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add the quantisation of a float tensor that enters the region."""
    quant, dtype = context.reader.quantize_params(root)
    source = context.float_input(context.reader.origin(root.args[0]), quant)
    if source.dtype != "float32":
        raise Unsupported("only float32 is quantised", seen=source.dtype)
    output = context.result(name, root, dtype, quant)
    context.add(Convert.quantize(name, source, output, context.reader.names(root)))


def convert_dequantize(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add the dequantisation of a tensor that leaves the region."""
    operand = context.reader.dequantized(root)
    if operand.data is not None:
        raise Unsupported("constants are dequantised at compile time")
    source = context.activation(operand)
    output = Tensor(name, source.shape, "float32", source.quant, _layout(static_shape(root)))
    context.add(Convert.dequantize(name, source, output, context.reader.names(root)))


def convert_clip(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a clip, relu or plain requantisation of its own: quantize(activation(dq(x)))."""
    reader = context.reader
    inner, bounds = activation.strip(reader, root.args[0])
    source = context.activation(reader.dequantized(inner))
    quant, dtype = reader.quantize_params(root)
    output = context.result(name, root, dtype, quant)
    clamp = activation.clamp(bounds, dtype, quant)
    context.add(Convert.rescale(name, source, output, context.profile, clamp, reader.names(root)))


def convert_concat(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a concatenation along any axis but the batch."""
    reader = context.reader
    inner, bounds = activation.strip(reader, root.args[0])
    call = reader.call(inner, "relax.concat")
    assert call is not None
    parts = reader.value(call.args[0])
    if not isinstance(parts, relax.Tuple):
        raise Unsupported("a concatenation must name its inputs one by one")
    rank = len(root.ty.shape)
    axis = int(call.attrs.axis) % rank
    if axis not in _ROW_COLUMN_CHANNEL.get(rank, {}):
        raise Unsupported("a concatenation must not be along the batch", seen=f"axis {axis}")
    inputs = tuple(context.activation(reader.dequantized(part), rank) for part in parts.fields)
    quant, dtype = reader.quantize_params(root)
    output = context.result(name, root, dtype, quant)
    clamp = activation.clamp(bounds, dtype, quant)
    context.add(
        Concat(
            name=name, inputs=inputs, outputs=(output,), source_names=reader.names(root),
            axis=_ROW_COLUMN_CHANNEL[rank][axis], rounding=context.profile.rounding,
            values=tuple(rescale_values(x, output, context.profile, clamp) for x in inputs),
        )
    )  # fmt: skip


def convert_reshape(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a reshape that keeps the batch: by way of NCHW order, since Relax reshapes in it."""
    reader = context.reader
    call = reader.call(root.args[0], *RESHAPES)
    assert call is not None
    operand = reader.dequantized(call.args[0])
    quant, dtype = reader.quantize_params(root)
    before, after = static_shape(operand.source), static_shape(root)
    if np.prod(before[1:], dtype=np.int64) != np.prod(after[1:], dtype=np.int64):
        raise Unsupported("a reshape must keep the batch", seen=f"{before} to {after}")
    names = reader.names(root)
    source = _in_memory_order(context, context.activation(operand), f"{name}.planes", names)
    shaped = Tensor(f"{name}.shaped", npu_shape(after), dtype, source.quant, _layout(after))
    context.add(Reshape(name=f"{name}.reshape", inputs=(source,), outputs=(shaped,)))
    output = context.result(name, root, dtype, quant)
    context.add(_finish_reshape(context, shaped, output, name, quant, names))


def _layout(shape: tuple[int, ...]) -> str:
    return "NCHW" if len(shape) == 4 else "NHWC"


def _in_memory_order(context: Context, source: Tensor, name: str, names: tuple[str, ...]) -> Tensor:
    """Return the tensor with its bytes in NCHW order, moved only where that differs."""
    height, width, channels = source.hwc
    if len(source.shape) < 4 or channels == 1 or height * width == 1:
        return source
    planes = Tensor(name, source.shape, source.dtype, source.quant, "NCHW")
    context.add(Convert.move(name, source, planes, names))
    return planes


def _finish_reshape(
    context: Context,
    shaped: Tensor,
    output: Tensor,
    name: str,
    quant: QuantParams,
    names: tuple[str, ...],
) -> Convert | Reshape:
    """Return the step from reshaped NCHW bytes to the NHWC output: nothing, a move, a rescale."""
    if shaped.quant != quant:
        return Convert.rescale(name, shaped, output, context.profile, None, names)
    height, width, channels = output.hwc
    if shaped.layout == "NHWC" or channels == 1 or height * width == 1:
        return Reshape(name=name, inputs=(shaped,), outputs=(output,), source_names=names)
    return Convert.move(name, shaped, output, names)
