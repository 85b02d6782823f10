"""Steps of random QNN graphs: products of two activations and transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from tvm import relay

from tests.relay import qnn_graphs

if TYPE_CHECKING:
    from tests.relay.qnn_graphs import GraphSource, Value

_SPREAD = 74.0 * 74.0


def steps(source: GraphSource) -> dict[str, Callable[[], None]]:
    """Return the steps by name."""
    return {
        "batch_matmul": lambda: batch_matmul(source),
        "computed_dense": lambda: computed_dense(source),
        "conv2d_transpose": lambda: conv2d_transpose(source),
    }


def batch_matmul(source: GraphSource) -> None:
    """Multiply the planes (or rows) of an image by themselves, another tensor or a constant."""
    x = source.image()
    stack, rows, depth = source.shape(x.extent)[1:]
    left = relay.reshape(x.expr, (stack, rows, depth))
    y_zero_point, y_scale = source.zero_point(x.dtype), source.scale(x.scale)
    if x.zero_point == 0:
        y_zero_point = 0
    kind = str(source.pick("self", "swapped", "input", "one", "constant", "constants"))
    columns = source.integer(1, 20)
    if kind == "self":
        right, columns, y_scale, y_zero_point = left, rows, x.scale, x.zero_point
    elif kind == "swapped":  # x^T x: both operands of the product are transposed
        right, y_scale, y_zero_point = left, x.scale, x.zero_point
        left, right = (relay.transpose(side, (0, 2, 1)) for side in (left, right))
        rows, columns, depth = depth, depth, rows
    elif kind in ("input", "one"):
        stacks = 1 if kind == "one" else stack
        right = _parameter(source, (stacks, columns, depth), x.dtype)
        if source.chance(0.5):
            right = _parameter(source, (stacks, depth, columns), x.dtype)
            right = relay.transpose(right, (0, 2, 1))
    else:
        stacks = 1 if kind == "constant" else stack
        right = relay.const(source.array((stacks, columns, depth), x.dtype))
    sums = relay.qnn.op.batch_matmul(
        left, right, *map(relay.const, (x.zero_point, y_zero_point)),
        *map(relay.const, (x.scale, y_scale)),
    )  # fmt: skip
    if source.chance(0.3):
        bias = source.random.normal(0, 3000, columns).astype("int32")
        sums = relay.add(sums, relay.const(bias))
    _leave(source, "batch_matmul", sums, (x, y_scale, depth), (stack, rows, columns))


def computed_dense(source: GraphSource) -> None:
    """Multiply an image as one matrix by weights that are an input."""
    x = source.image()
    height, width, channels = x.extent
    depth = int(source.pick(channels, width, height * width))
    rows = height * width * channels // depth
    columns, scale = source.integer(1, 20), source.scale(x.scale)
    sums = relay.qnn.op.dense(
        relay.reshape(x.expr, (rows, depth)), _parameter(source, (columns, depth), x.dtype),
        relay.const(x.zero_point), relay.const(source.zero_point(x.dtype)),
        relay.const(x.scale), relay.const(scale), units=columns,
    )  # fmt: skip
    _leave(source, "computed_dense", sums, (x, scale, depth), (1, rows, columns))


def _parameter(source: GraphSource, shape: tuple[int, ...], dtype: str) -> relay.Var:
    var = relay.var(f"x{len(source.params)}", shape=shape, dtype=dtype)
    source.params.append(var)
    return var


def _leave(
    source: GraphSource, name: str, sums: relay.Expr, operands: tuple[Value, float, int],
    shape: tuple[int, int, int],
) -> None:  # fmt: skip
    """Requantise a product, sometimes add a constant to it, and make an image of it."""
    x, y_scale, depth = operands
    product = np.float32(x.scale) * np.float32(y_scale)
    near = float(product) * _SPREAD * float(np.sqrt(depth)) / 20
    axis = 2 if name == "batch_matmul" else 1
    expr, dtype, scale, zero_point = source.requantized(sums, np.array([product]), near, axis)
    if source.chance(0.3):
        other = relay.const(source.array(shape[-1:], dtype))
        params = (scale, zero_point, scale, zero_point, scale, zero_point)
        expr = relay.qnn.op.add(expr, other, *map(relay.const, params))
    stack, rows, columns = shape
    extent = (rows, columns, stack) if source.layout == "NCHW" else shape
    expr = relay.reshape(expr, (1, *shape))
    source.add(name, qnn_graphs.Value(expr, extent, dtype, scale, zero_point))


def conv2d_transpose(source: GraphSource) -> None:
    """Add a transposed convolution: any stride, padding, output padding and groups."""
    x = source.image()
    channels = x.extent[2]
    kernel = [int(source.pick(1, 2, 2, 3, 3, 4)) for _ in range(2)]
    strides = [int(source.pick(1, 2, 2, 3)) for _ in range(2)]
    padding = [source.integer(0, k - 1) for k in (*kernel, *kernel)]
    extra = [source.integer(0, s - 1) for s in strides]
    ends = [padding[i] + padding[i + 2] for i in range(2)]
    sizes = [
        (n - 1) * s + k + e - p
        for n, s, k, e, p in zip(x.extent[:2], strides, kernel, extra, ends, strict=True)
    ]
    if min(sizes) < 1 or max(sizes) > 24:
        return
    groups = int(source.pick(1, 1, 1, channels, 2 if channels % 2 == 0 else 1))
    per_group = source.integer(1, 5)
    out, depth = groups * per_group, kernel[0] * kernel[1] * channels // groups
    shape = (channels, per_group, *kernel)
    weight, w_scale, w_zp, bias, near = source.layer_constants(x, shape, out, depth)
    if groups > 1:  # TVM has one scale for each pair of input and output channels of a group
        w_scale = w_scale[:1]
    kernel_layout = str(source.pick("IOHW", "OIHW", "HWOI", "HWIO"))
    order = ["IOHW".index(axis) for axis in kernel_layout]
    sums = relay.qnn.op.conv2d_transpose(
        x.expr, relay.const(np.ascontiguousarray(weight.transpose(order))),
        relay.const(x.zero_point), relay.const(w_zp.reshape(())), relay.const(x.scale),
        relay.const(w_scale if w_scale.size > 1 else w_scale.reshape(())),
        kernel_size=kernel, channels=out, strides=strides, padding=padding,
        output_padding=extra, groups=groups, data_layout=source.layout,
        kernel_layout=kernel_layout,
    )  # fmt: skip
    sums = source.biased(sums, bias, source.channel_axis, 4)
    product = np.float32(x.scale) * w_scale
    expr, dtype, scale, zp = source.requantized(sums, product, near, source.channel_axis)
    extent = (sizes[0], sizes[1], out)
    source.add("conv2d_transpose", qnn_graphs.Value(expr, extent, dtype, scale, zp))
