"""Convolution sums of whole layers through float arithmetic that is proven exact.

The input zero point is folded into the bias, so activations are only converted: a sum over
x * (w - w_zp), padding included as its raw value, minus in_zp times the weights' sum. In float32
every partial sum is an exact integer while max|x| * sum|w - w_zp| + |bias| < 2^24; the weights at
hand decide, output channel by output channel. Otherwise float64 does, up to 2^53.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.engines.matrix import unblock
from runtime_sim.engines.windows import Window
from runtime_sim.merge import scratch
from runtime_sim.merge.layers import Block, Tensor
from runtime_sim.merge.reading import Reader
from runtime_sim.npu import NpuConfig
from runtime_sim.templates import Template
from runtime_sim.views import DTYPES

Array = NDArray[Any]
FLOAT32_EXACT = 1 << 24
INT32_SPAN = 1 << 31
_TILED_BELOW = 128
"""Depthwise weights of fewer channels are repeated along a row, for longer inner loops."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of one CONV or DWCONV as integers, zero points subtracted: (taps * ic, channels)."""

    template: Template
    window: Window
    values: NDArray[np.int32]

    @property
    def fold(self) -> NDArray[np.int64]:
        """Return what the input zero point subtracts from every sum, per channel."""
        return int(self.template.fields["in_zp"]) * self.values.sum(axis=0, dtype=np.int64)

    @property
    def absolute(self) -> NDArray[np.int64]:
        """Return the sum of absolute weights, per channel."""
        return np.abs(self.values).sum(axis=0, dtype=np.int64)

    @property
    def largest_raw(self) -> int:
        """Return the largest magnitude of an activation as it stands in memory."""
        info = np.iinfo(DTYPES[self.template.fields["a_type"]])
        return max(-int(info.min), int(info.max))

    @property
    def largest(self) -> int:
        """Return the largest magnitude of an activation minus its zero point."""
        info, zero = np.iinfo(DTYPES[self.template.fields["a_type"]]), self.template.fields["in_zp"]
        return max(abs(int(info.min) - zero), abs(int(info.max) - zero))


def read_weights(
    template: Template,
    window: Window,
    tables: Sequence[tuple[Block, ...]],
    memories: Sequence[Any],
    config: NpuConfig,
) -> Weights:
    """Unpack a layer's weights from the tables of its channel blocks."""
    f, parts = template.fields, []
    dtype = DTYPES[f["w_type"]]
    depth = f["kh"] * f["kw"] * f.get("ic", 1)
    for number, block in enumerate(tables[0]):
        raw = block_bytes(block, memories).view(dtype)
        if "oc" in f:
            part = unblock(raw, depth, block.count, config.array_cols, np.int32)
        else:
            part = raw.reshape(depth, block.count).astype(np.int32)
        if f["w_zp_vector"]:
            zero: Any = block_bytes(tables[1][number], memories).view(dtype).astype(np.int32)
        else:
            zero = np.int32(f["w_zp"])
        parts.append(part - zero)
    return Weights(template, window, np.concatenate(parts, axis=1))


def block_bytes(block: Block, memories: Sequence[Any]) -> NDArray[np.uint8]:
    """Return the bytes of one block of a table."""
    data: NDArray[np.uint8] = memories[block.memory][block.offset : block.offset + block.size]
    return data


class Dense:
    """CONV as a matrix product of gathered windows and weights."""

    def __init__(self, weights: Weights, tensor: Tensor, dtype: np.dtype[Any]) -> None:
        """Convert the weights to `dtype`, float32 or float64."""
        self._read = Reader(tensor, dtype, weights.template.fields["pad_value"])
        self._weights = weights.values.astype(dtype)
        self._dtype = dtype

    def into(self, out: Array, memories: Sequence[Any], rows: tuple[int, int]) -> None:
        """Write the sums of output rows [first, last) to `out` (pixels, channels)."""
        np.matmul(self._read.columns(memories, rows), self._weights, out=out)


class Depthwise:
    """DWCONV tap by tap over blocks of rows."""

    def __init__(self, weights: Weights, tensor: Tensor, dtype: np.dtype[Any]) -> None:
        """Convert the weights to `dtype`, repeated along a row where that pays."""
        f = weights.template.fields
        self._read = Reader(tensor, dtype, f["pad_value"])
        self._window, self._mult = weights.window, f["mult"]
        values = weights.values.astype(dtype)
        width = weights.window.out[1] if values.shape[1] < _TILED_BELOW else 1
        self._weights = np.repeat(values[:, None, :], width, axis=1)

    def into(self, out: Array, memories: Sequence[Any], rows: tuple[int, int]) -> None:
        """Write the sums of output rows [first, last) to `out` (pixels, channels)."""
        window, (first, last) = self._window, rows
        phases = self._read.phases(memories, rows)
        if self._mult > 1:
            phases = [np.repeat(phase, self._mult, axis=2) for phase in phases]
        shape = (last - first, window.out[1], out.shape[1])
        total, product = out.reshape(shape), scratch.array("product", shape, out.dtype)
        for number, weights in enumerate(self._weights):
            y, x = divmod(number, window.kernel[1])
            meets = _tap(phases, window, y, x, last - first)
            if number == 0:
                np.multiply(meets, weights, out=total)
            else:
                np.multiply(meets, weights, out=product)
                np.add(total, product, out=total)


def _tap(phases: Sequence[Array], window: Window, y: int, x: int, rows: int) -> Array:
    """Return the elements that kernel position (y, x) meets: (rows, out width, channels)."""
    (row_step, column_step), (row_gap, column_gap) = window.stride, window.dilation
    begin, phase = divmod(x * column_gap, column_step)
    top = y * row_gap
    plane = phases[phase]
    return plane[top : top + (rows - 1) * row_step + 1 : row_step, begin : begin + window.out[1]]
