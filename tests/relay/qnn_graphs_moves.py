"""Steps of random QNN graphs that move elements: padding, slices, splits, transpositions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from tvm import relay

if TYPE_CHECKING:
    from tests.relay.qnn_graphs import GraphSource, Value

_LARGEST = 16


def steps(source: GraphSource) -> dict[str, Callable[[], None]]:
    """Return the steps by name."""
    table = (pad, slices, split, transpose, shuffle, unit_axes, adaptive_max, adaptive_avg)
    return {step.__name__: partial(step, source) for step in table}


def _axes(source: GraphSource) -> tuple[int, int, int]:
    """Return which axes of a Relay tensor are (rows, columns, channels)."""
    return (2, 3, 1) if source.layout == "NCHW" else (1, 2, 3)


def _like(x: Value, expr: relay.Expr, extent: tuple[int, ...]) -> Value:
    return type(x)(expr, extent, x.dtype, x.scale, x.zero_point)


def pad(source: GraphSource) -> None:
    x = source.image()
    info = np.iinfo(x.dtype)
    value = int(source.pick(x.zero_point, x.zero_point, info.min, source.integer(-9, 9)))
    widths, extent = [(0, 0)] * 4, list(x.extent)
    for index, axis in enumerate(_axes(source)):
        if source.chance(0.6 if index < 2 else 0.2):
            widths[axis] = source.integer(0, 3), source.integer(0, 3)
        extent[index] += sum(widths[axis])
    if max(extent[:2]) > _LARGEST:
        return
    value = min(max(value, info.min), info.max)
    number = relay.const(value, x.dtype) if source.chance(0.5) else float(value)
    expr = relay.nn.pad(x.expr, widths, number)
    source.add("pad", _like(x, expr, tuple(extent)))


def slices(source: GraphSource) -> None:
    x = source.image()
    begins, ends, strides, axes, extent = [], [], [], [], list(x.extent)
    for index, axis in enumerate(_axes(source)):
        if source.chance(0.4):
            continue
        size = x.extent[index]
        begin = source.integer(0, size - 1)
        end = source.integer(begin + 1, size)
        step = int(source.pick(1, 1, 2, 3))
        extent[index] = -(-(end - begin) // step)
        begins.append(begin - size if source.chance(0.2) else begin)
        ends.append(end if end < size or source.chance(0.5) else size + 5)
        strides.append(step)
        axes.append(axis)
    if axes:
        expr = relay.strided_slice(x.expr, begins, ends, strides, axes=axes)
        source.add("slice", _like(x, expr, tuple(extent)))


def split(source: GraphSource) -> None:
    x = source.image()
    index = source.integer(0, 2)
    size, axis = x.extent[index], _axes(source)[index]
    if size < 2:
        return
    counts = [n for n in (2, 3, 4) if size % n == 0]
    if counts and source.chance(0.5):
        count = int(source.pick(*counts))
        parts, sizes = relay.split(x.expr, count, axis=axis), [size // count] * count
    else:
        cut = source.integer(1, size - 1)
        parts, sizes = relay.split(x.expr, (cut,), axis=axis), [cut, size - cut]
    for number, part in enumerate(sizes):
        extent = list(x.extent)
        extent[index] = part
        source.values.append(_like(x, parts[number], tuple(extent)))
    source.used.append("split")


def transpose(source: GraphSource) -> None:
    x = source.image()
    order = [int(axis) for axis in source.random.permutation(3)]
    spatial = _axes(source)
    axes = [0] * 4
    for index, origin in enumerate(order):
        axes[spatial[index]] = spatial[origin]
    extent = tuple(x.extent[origin] for origin in order)
    source.add("transpose", _like(x, relay.transpose(x.expr, axes), extent))


def shuffle(source: GraphSource) -> None:
    """Exchange channels between groups by way of five axes."""
    x = source.image()
    height, width, channels = x.extent
    groups = int(source.pick(*(n for n in (1, 2, 3, 4) if channels % n == 0)))
    five = (1, groups, channels // groups, height, width)
    axes = (0, 2, 1, 3, 4)
    if source.layout == "NHWC":
        five, axes = (1, height, width, groups, channels // groups), (0, 1, 2, 4, 3)
    wide = relay.transpose(relay.reshape(x.expr, five), axes)
    source.add("shuffle", _like(x, relay.reshape(wide, source.shape(x.extent)), x.extent))


def unit_axes(source: GraphSource) -> None:
    """Add an axis of size 1 and take it away."""
    x = source.image()
    axis = source.integer(1, 4)
    wide = relay.expand_dims(x.expr, axis, 1)
    if source.chance(0.5):
        wide = relay.clip(wide, x.zero_point, np.iinfo(x.dtype).max)
    source.add("unit_axes", _like(x, relay.squeeze(wide, [axis]), x.extent))


def _cells(source: GraphSource, x: Value) -> tuple[int, int]:
    rows, cols = (source.integer(1, min(size, 5)) for size in x.extent[:2])
    return rows, cols


def adaptive_max(source: GraphSource) -> None:
    x = source.image()
    rows, cols = _cells(source, x)
    expr = relay.nn.adaptive_max_pool2d(x.expr, (rows, cols), layout=source.layout)
    source.add("adaptive_max", _like(x, expr, (rows, cols, x.extent[2])))


def adaptive_avg(source: GraphSource) -> None:
    x = source.image()
    rows, cols = _cells(source, x)
    wide = relay.cast(x.expr, "int32")
    expr = relay.nn.adaptive_avg_pool2d(wide, (rows, cols), layout=source.layout)
    expr = relay.cast(expr, x.dtype)
    source.add("adaptive_avg", _like(x, expr, (rows, cols, x.extent[2])))
