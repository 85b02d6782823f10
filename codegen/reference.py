"""NumPy references of the operators: what every kernel must equal, element for element.

Nothing here or in `codegen.arithmetic` may import `runtime_sim`: two independent pieces of
arithmetic must agree. Functions take plain arrays and numbers; tensors are (H, W, C) and int64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.arithmetic import FIXED_POINT, I64, INTEGER_LIMITS, finish, rescale, wrap32

Values = NDArray[np.generic]

COMBINE: Mapping[str, Callable[..., NDArray[Any]]] = MappingProxyType(
    {
        "ADD": np.add,
        "SUB": np.subtract,
        "MUL": np.multiply,
        "MIN": np.minimum,
        "MAX": np.maximum,
    }
)


@dataclass(frozen=True, slots=True)
class Slide:
    """How a window moves along one axis."""

    out: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0

    def places(self, tap: int, size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return (outputs, inputs): which outputs see an element under `tap`, and which one."""
        inputs = np.arange(self.out) * self.stride - self.pad + tap * self.dilation
        outputs = np.flatnonzero((inputs >= 0) & (inputs < size))
        return outputs, inputs[outputs]


def tap(x: I64, rows: Slide, cols: Slide, ky: int, kx: int, fill: int = 0) -> I64:
    """Return (rows.out, cols.out, C): what one kernel position sees, `fill` in the padding."""
    out = np.full((rows.out, cols.out, x.shape[2]), fill, np.int64)
    (out_y, in_y), (out_x, in_x) = rows.places(ky, x.shape[0]), cols.places(kx, x.shape[1])
    out[np.ix_(out_y, out_x)] = x[np.ix_(in_y, in_x)]
    return out


def taps(x: I64, rows: Slide, cols: Slide, fill: int = 0) -> I64:
    """Return (taps, rows.out, cols.out, C): what every kernel position sees."""
    return np.stack(
        [tap(x, rows, cols, y, x_, fill) for y in range(rows.kernel) for x_ in range(cols.kernel)]
    )


def convolve(x: I64, w: I64, rows: Slide, cols: Slide, groups: int = 1) -> I64:
    """Return the sums of x (zero point removed, so padding is 0) and w [oc][kh][kw][ic/groups]."""
    total = np.zeros((rows.out, cols.out, len(w)), np.int64)
    filters = np.split(w, groups)
    for ky in range(rows.kernel):
        for kx in range(cols.kernel):
            parts = np.split(tap(x, rows, cols, ky, kx), groups, axis=2)
            products = [p @ f[:, ky, kx].T for p, f in zip(parts, filters, strict=True)]
            total += np.concatenate(products, axis=2)
    return total


def convolve_transposed(x: I64, w: I64, rows: Slide, cols: Slide, groups: int = 1) -> I64:
    """Return sums that every element of x scatters: y[i * stride + tap - pad] += x[i] w[tap].

    w is [oc][kh][kw][ic/groups]; slides are over the result, whose extent is their `out`.
    """
    total = np.zeros((rows.out, cols.out, len(w)), np.int64)
    filters, parts = np.split(w, groups), np.split(x, groups, axis=2)
    for ky in range(rows.kernel):
        for kx in range(cols.kernel):
            products = [p @ f[:, ky, kx].T for p, f in zip(parts, filters, strict=True)]
            y = np.arange(x.shape[0]) * rows.stride + ky - rows.pad
            z = np.arange(x.shape[1]) * cols.stride + kx - cols.pad
            inside = np.ix_((y >= 0) & (y < rows.out), (z >= 0) & (z < cols.out))
            target = np.ix_(y[(y >= 0) & (y < rows.out)], z[(z >= 0) & (z < cols.out)])
            total[target] += np.concatenate(products, axis=2)[inside]
    return total


def depthwise(x: I64, w: I64, rows: Slide, cols: Slide) -> I64:
    """Return the sums where output channel o reads channel o // multiplier; w [oc][kh][kw][1]."""
    wide = np.repeat(x, len(w) // x.shape[2], axis=2)
    total = np.zeros((rows.out, cols.out, len(w)), np.int64)
    for ky in range(rows.kernel):
        for kx in range(cols.kernel):
            total += tap(wide, rows, cols, ky, kx) * w[:, ky, kx, 0]
    return total


def multiply(a: I64, b: I64, transpose_a: bool, transpose_b: bool) -> I64:
    """Return the products of two stacks of centred matrices; a stack of one serves all."""
    left = a.transpose(0, 2, 1) if transpose_a else a
    right = b.transpose(0, 2, 1) if transpose_b else b
    return np.asarray(left @ right)


def requantize(sums: I64, rounding: str, scale: Values, offset: tuple[int, int, int]) -> I64:
    """Return clamp(round(sums * scale) + zero_point, low, high); `offset` has the last three.

    Sums, bias included, are int32 and wrap.
    """
    return finish(rescale(wrap32(sums), rounding, scale), *offset)


def combine(
    op: str,
    values: tuple[I64, I64],
    scales: tuple[float, float, float],
    rounding: str,
    left_shift: int,
    offset: tuple[int, int, int],
) -> I64:
    """Return op(a, b) of centred values, broadcasting as NumPy does.

    Fixed point: a, b (after the left shift) and their combination are multiplied by `scales`, each
    with a rounding. FLOAT_RNE: a and b are dequantised by their scales, the result is quantised.
    """
    (a, b), (scale_a, scale_b, scale_out) = values, scales
    function = COMBINE[op]
    if rounding not in FIXED_POINT:
        real = function(
            a.astype(np.float32) * np.float32(scale_a), b.astype(np.float32) * np.float32(scale_b)
        )
        return finish(np.rint(real / np.float32(scale_out)), *offset)
    a = rescale(a << left_shift, rounding, np.array(scale_a))
    b = rescale(b << left_shift, rounding, np.array(scale_b))
    return finish(rescale(function(a, b), rounding, np.array(scale_out)), *offset)


def convert(
    x: I64, scales: tuple[float, float], rounding: str, offset: tuple[int, int, int]
) -> I64:
    """Return centred integers rescaled from the first scale to the second."""
    if rounding in FIXED_POINT:
        return finish(rescale(x, rounding, np.array(scales[0] / scales[1])), *offset)
    real = x.astype(np.float32) * np.float32(scales[0])
    return finish(np.rint(real / np.float32(scales[1])), *offset)


def quantize(real: Values, scale: float, zero_point: int, dtype: str, ties_even: bool) -> Values:
    """Return round(x / scale) + zero_point, saturated; NaN becomes the zero point.

    Ties go to even (ONNX QuantizeLinear) or away from zero (TFLite Quantize).
    """
    low, high = INTEGER_LIMITS[dtype]
    with np.errstate(all="ignore"):
        quotient = real.astype(np.float32) / np.float32(scale)
        exact = quotient.astype(np.float64)
        away = np.sign(exact) * np.floor(np.abs(exact) + 0.5)
        rounded = np.rint(exact) if ties_even else away
    rounded = np.where(np.isnan(rounded), 0, rounded)
    return np.clip(rounded + zero_point, low, high).astype(dtype)


def dequantize(values: Values, scale: float, zero_point: int) -> NDArray[np.float32]:
    """Return ONNX DequantizeLinear: float32(q - zero_point) * scale."""
    centred = (values.astype(np.int64) - zero_point).astype(np.float32)
    return np.asarray(centred * np.float32(scale))


def strided(x: Values, begin: Sequence[int], steps: Sequence[int], counts: Sequence[int]) -> Values:
    """Return `counts` elements of each axis, from `begin` on, every `steps`-th."""
    places = [
        [first + step * index for index in range(count)]
        for first, step, count in zip(begin, steps, counts, strict=True)
    ]
    return x[np.ix_(*places)]


def permuted(x: Values, axes: Sequence[int]) -> Values:
    """Return an array whose axis k is axis `axes[k]` of x."""
    result = np.zeros([x.shape[axis] for axis in axes], x.dtype)
    for place in np.ndindex(*x.shape):
        result[tuple(place[axis] for axis in axes)] = x[place]
    return result


def padded(x: Values, before: Sequence[int], extent: Sequence[int], value: int) -> Values:
    """Return an array of `extent` filled with `value`, x in it behind `before`."""
    result = np.full(tuple(extent), value, x.dtype)
    spans = [slice(b, b + n) for b, n in zip(before, x.shape, strict=True)]
    result[tuple(spans)] = x
    return result


def look_up(x: Values, table: Values) -> Values:
    """Return the table's entry for the byte of each 8-bit value: negative ones stand behind 127."""
    index = x.astype(np.int64)
    return table[np.where(index < 0, index + 256, index)]


def softmax(x: I64, scales: tuple[float, float], offset: tuple[int, int, int]) -> I64:
    """Return the softmax of the last axis in float64, rounded half to even to the second scale."""
    exponentials = np.exp((x - x.max(axis=-1, keepdims=True)) * scales[0])
    shares = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return finish(np.rint(shares / scales[1]).astype(np.int64), *offset)


def shiftmax(
    x: I64, scales: tuple[float, float], rounding: str, offset: tuple[int, int, int]
) -> I64:
    """Return the softmax of the last axis as TVM 0.19 lowers qnn.softmax (I-ViT's Shiftmax).

    The exponent x / scale * log2(e) is x + x/2 - x/16 in units of round(1 / scale); its whole part,
    at most 20, shifts, and 2^fraction is 1 + fraction / 2.
    """
    inverse = np.float32(1) / np.float32(scales[0])
    unit = np.int64(np.floor(np.float64(inverse) + 0.5))
    below = x - x.max(axis=-1, keepdims=True)
    exponent = below + np.floor_divide(below, 2) - np.floor_divide(below, 16)
    whole = np.minimum(np.abs(exponent) // unit, 20)
    mantissa = np.floor_divide(exponent + whole * unit, 2) + unit
    exponentials = mantissa * 2 ** (whole.max(axis=-1, keepdims=True) - whole)
    factor = 2**30 // exponentials.sum(axis=-1, keepdims=True)
    shares = np.floor_divide(factor * exponentials, 2**23)
    return finish(rescale(shares, rounding, np.array(1 / 128 / scales[1])), *offset)


def to_nhwc(values: Values, extent: Sequence[int], planar: bool) -> Values:
    """Return an array as (H, W, C) from the layout that it has in memory."""
    height, width, channels = extent
    if planar:
        return values.reshape(channels, height, width).transpose(1, 2, 0)
    return values.reshape(height, width, channels)


def from_nhwc(values: Values, planar: bool) -> Values:
    """Return an (H, W, C) array in the layout that it has in memory."""
    return np.ascontiguousarray(values.transpose(2, 0, 1) if planar else values)
