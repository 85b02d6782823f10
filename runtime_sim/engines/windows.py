"""Sliding windows: the padded input, its taps and its im2col matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from runtime_sim.views import Fields, Operand, tensor


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a sliding window, in input pixels, as (rows, columns) pairs.

    `covered` is the padded input that all windows together span; `used` is how much of the present
    input they can reach.
    """

    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pad: tuple[int, int]
    present: tuple[int, int]
    covered: tuple[int, int]
    used: tuple[int, int]

    @property
    def is_plain(self) -> bool:
        """Tell whether every input pixel is one window: 1 x 1, stride 1, nothing padded."""
        return self.kernel == (1, 1) and self.used == self.covered == self.out

    def tap(self, padded: NDArray[Any], y: int, x: int) -> NDArray[Any]:
        """Return the (out_h, out_w, channels) elements that kernel position (y, x) meets."""
        rows, columns = (
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip((y, x), self.dilation, self.out, self.stride, strict=True)
        )
        return padded[rows, columns]

    def counts(self) -> NDArray[np.int64]:
        """Return (out_h, out_w): how many elements of each window lie inside the input."""
        sides = []
        for axis in range(2):
            first = np.arange(self.out[axis]) * self.stride[axis] - self.pad[axis]
            taps = first[:, None] + np.arange(self.kernel[axis]) * self.dilation[axis]
            sides.append(((taps >= 0) & (taps < self.present[axis])).sum(axis=1))
        return sides[0][:, None] * sides[1]

    def padded(
        self, x: NDArray[Any], zero_point: int, pad_value: int, dtype: DTypeLike
    ) -> NDArray[Any]:
        """Return x - zero_point as `dtype` inside a border of pad_value - zero_point."""
        zero = np.array(zero_point, dtype)
        if self.used == self.covered:
            return np.subtract(x, zero, dtype=dtype, order="C")
        (top, left), (rows, columns) = self.pad, x.shape[:2]
        out = np.full((*self.covered, x.shape[2]), pad_value - zero_point, dtype)
        np.subtract(x, zero, out=out[top : top + rows, left : left + columns], dtype=dtype)
        return out

    def reduce(self, padded: NDArray[Any], combine: Any) -> NDArray[Any]:
        """Combine all taps of every window; returns (out_h, out_w, channels).

        Window columns first, then window rows, so that kh + kw passes do instead of kh * kw.
        `combine` is a ufunc such as np.maximum or np.add.
        """
        (height, width), (kh, kw) = self.out, self.kernel
        (sh, sw), (dh, dw) = self.stride, self.dilation
        columns = [padded[:, x * dw : x * dw + (width - 1) * sw + 1 : sw] for x in range(kw)]
        narrow = _fold(columns, combine)
        rows = [narrow[y * dh : y * dh + (height - 1) * sh + 1 : sh] for y in range(kh)]
        return _fold(rows, combine)

    def im2col(self, padded: NDArray[Any]) -> NDArray[Any]:
        """Return the (out_h * out_w, kh * kw * channels) matrix of all windows."""
        (height, width), channels = self.out, padded.shape[2]
        if self.is_plain:
            return padded.reshape(height * width, channels)
        return self.view(padded, height).reshape(height * width, -1)

    def view(self, padded: NDArray[Any], rows: int) -> NDArray[Any]:
        """Return (rows, out_w, kh, kw, channels): the first windows of a contiguous input."""
        row, column, channel = padded.strides
        shape = (rows, self.out[1], *self.kernel, padded.shape[2])
        strides = (
            row * self.stride[0],
            column * self.stride[1],
            row * self.dilation[0],
            column * self.dilation[1],
            channel,
        )
        return np.ndarray(shape, padded.dtype, padded, 0, strides)


def _fold(parts: list[NDArray[Any]], combine: Any) -> NDArray[Any]:
    total = parts[0].copy()
    for part in parts[1:]:
        combine(total, part, out=total)
    return total


def window(f: Fields) -> Window:
    """Return the window geometry of a convolution or pooling command."""
    dilation = (f.get("dh", 1), f.get("dw", 1))
    covered = (
        (f["out_h"] - 1) * f["sh"] + (f["kh"] - 1) * dilation[0] + 1,
        (f["out_w"] - 1) * f["sw"] + (f["kw"] - 1) * dilation[1] + 1,
    )
    return Window(
        out=(f["out_h"], f["out_w"]),
        kernel=(f["kh"], f["kw"]),
        stride=(f["sh"], f["sw"]),
        dilation=dilation,
        pad=(f["pad_top"], f["pad_left"]),
        present=(f["in_h"], f["in_w"]),
        covered=covered,
        used=(
            max(0, min(f["in_h"], covered[0] - f["pad_top"])),
            max(0, min(f["in_w"], covered[1] - f["pad_left"])),
        ),
    )


def window_input(f: Fields, geometry: Window, channels: int, dtype: int) -> Operand:
    """Return the part of the input operand that the windows can reach."""
    rows, columns = geometry.used
    return tensor(f, "in", rows, columns, channels, dtype)
