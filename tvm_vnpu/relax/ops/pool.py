"""Pooling composites: max and average pools, and means over rows and columns."""

from __future__ import annotations

import tvm

from codegen.graph import Tensor
from codegen.ops.convert import Convert
from codegen.ops.pool import MaxPool, average_pool
from codegen.ops.reshape import Reshape
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax.context import Context, npu_shape
from tvm_vnpu.relax.ops import activation
from tvm_vnpu.relax.reader import static_shape


def convert_max_pool(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a max pool; a result at another scale is rescaled after it."""
    reader = context.reader
    inner, bounds = activation.strip(reader, root.args[0])
    call = reader.call(inner, "relax.nn.max_pool2d")
    assert call is not None
    window, strides, padding = _window(call)
    x = context.activation(reader.dequantized(call.args[0]))
    quant, dtype = reader.quantize_params(root)
    output = context.result(name, root, dtype, quant)
    names = reader.names(root)
    same = (x.quant, x.dtype) == (quant, dtype)
    pooled = output if same else Tensor(f"{name}.pooled", output.shape, x.dtype, x.quant)
    assert pooled.quant is not None
    clamp = activation.clamp(bounds, pooled.dtype, pooled.quant)
    context.add(
        MaxPool(
            name=name, inputs=(x,), outputs=(pooled,), source_names=names, window=window,
            strides=strides, padding=padding, clamp=clamp,
        )
    )  # fmt: skip
    if not same:
        context.add(
            Convert.rescale(f"{name}.rescale", pooled, output, context.profile, None, names)
        )


def convert_avg_pool(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add an average pool."""
    reader = context.reader
    inner, bounds = activation.strip(reader, root.args[0])
    call = reader.call(inner, "relax.nn.avg_pool2d")
    assert call is not None
    window, strides, padding = _window(call)
    include_pad = bool(call.attrs.count_include_pad)
    if include_pad and bool(call.attrs.ceil_mode):
        raise Unsupported("count_include_pad with ceil_mode counts elements that do not exist")
    x = context.activation(reader.dequantized(call.args[0]))
    quant, dtype = reader.quantize_params(root)
    fields: dict[str, object] = {
        "name": name, "inputs": (x,), "source_names": reader.names(root),
        "outputs": (context.result(name, root, dtype, quant),),
        "window": window, "strides": strides, "padding": padding, "include_pad": include_pad,
    }  # fmt: skip
    context.add(average_pool(fields, context.profile, activation.clamp(bounds, dtype, quant)))


def convert_mean(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add a mean over rows and columns as a pool of the whole image."""
    reader = context.reader
    inner, bounds = activation.strip(reader, root.args[0])
    call = reader.call(inner, "relax.mean")
    assert call is not None
    operand = reader.dequantized(call.args[0])
    rank = len(operand.shape)
    axes = sorted(int(axis) % rank for axis in (call.attrs.axis or ()))
    if rank != 4 or axes != [2, 3]:
        raise Unsupported("a mean must be over rows and columns", seen=f"axes {axes} of {rank}")
    x = context.activation(operand)
    quant, dtype = reader.quantize_params(root)
    height, width, channels = x.hwc
    target = npu_shape(static_shape(root))
    pooled = Tensor(name, (1, 1, 1, channels), dtype, quant)
    output = pooled if target == pooled.shape else Tensor(name, target, dtype, quant)
    fields: dict[str, object] = {
        "name": name, "inputs": (x,), "outputs": (pooled,), "source_names": reader.names(root),
        "window": (height, width), "strides": (1, 1),
    }  # fmt: skip
    context.add(average_pool(fields, context.profile, activation.clamp(bounds, dtype, quant)))
    if output is not pooled:
        context.add(Reshape(name=f"{name}.shape", inputs=(pooled,), outputs=(output,)))


def _window(call: tvm.ir.Call) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Return window, strides and (top, left) padding of a pool; Unsupported if it is dilated."""
    attrs = call.attrs
    if str(attrs.layout) != "NCHW":
        raise Unsupported("the layout must be NCHW", seen=str(attrs.layout))
    if any(int(d) != 1 for d in attrs.dilation):
        raise Unsupported("pools must not be dilated", seen=[int(d) for d in attrs.dilation])
    sizes = [int(v) for v in attrs.pool_size]
    strides = [int(v) for v in attrs.strides]
    padding = [int(v) for v in attrs.padding]
    return (sizes[0], sizes[1]), (strides[0], strides[1]), (padding[0], padding[1])
