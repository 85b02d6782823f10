"""Input rows of a layer as floats: converted once, padded, gathered as the kernels want them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.merge import scratch
from runtime_sim.merge.layers import Tensor
from runtime_sim.merge.values import Source

Array = NDArray[Any]


def elements(source: Source, memories: Sequence[Any], rows: tuple[int, int]) -> Array:
    """Return rows [first, last) of a tensor in DRAM, its conversions applied."""
    first, last = rows
    data: Array = np.ndarray(
        (last - first, *source.shape[1:]),
        source.dtype,
        memories[source.memory],
        source.offset + first * source.strides[0],
        source.strides,
    )
    for stage in source.stages:
        assert stage.step is not None
        data = np.asarray(stage.step.compute(data), stage.step.write.views[0].dtype)
    return data


class Reader:
    """Reads the input that a range of output rows needs."""

    def __init__(self, tensor: Tensor, dtype: np.dtype[Any], pad_value: int) -> None:
        """Read `tensor` as `dtype`; the padding holds `pad_value`."""
        self._source, self._window = tensor.source, tensor.window
        self._dtype, self._pad = dtype, pad_value
        window = tensor.window
        self._inside = window.used == window.covered

    def columns(self, memories: Sequence[Any], rows: tuple[int, int]) -> Array:
        """Return the matrix of all windows of output rows [first, last): (pixels, taps * ic)."""
        window, (first, last) = self._window, rows
        count, width, channels = last - first, window.out[1], self._source.shape[2]
        if window.kernel == (1, 1) and self._inside:
            (row_step, column_step) = window.stride
            taken = elements(self._source, memories, (first * row_step, (last - 1) * row_step + 1))[
                ::row_step, ::column_step
            ]
            plain = scratch.array("columns", (count, width, channels), self._dtype)
            np.copyto(plain, taken)
            return plain.reshape(count * width, channels)
        windows = window.view(self._padded(memories, rows), count)
        gathered = scratch.array("columns", windows.shape, self._dtype)
        np.copyto(gathered, windows)
        return gathered.reshape(count * width, -1)

    def phases(self, memories: Sequence[Any], rows: tuple[int, int]) -> list[Array]:
        """Return the padded input, split by column modulo the column stride."""
        step = self._window.stride[1]
        if step == 1:
            return [self._padded(memories, rows)]
        data, (top, left), (height, width) = self._present(memories, rows)
        channels = data.shape[2]
        planes = []
        for phase in range(step):
            columns = -(-(width - phase) // step)
            plane = scratch.array(f"padded{phase}", (height, columns, channels), self._dtype)
            if not (top == left == 0 and data.shape[:2] == (height, width)):
                plane.fill(self._pad)
            skip = (phase - left) % step
            begin = (left + skip - phase) // step
            part = data[:, skip::step]
            plane[top : top + len(data), begin : begin + part.shape[1]] = part
            planes.append(plane)
        return planes

    def _padded(self, memories: Sequence[Any], rows: tuple[int, int]) -> Array:
        data, (top, left), shape = self._present(memories, rows)
        padded = scratch.array("padded", (*shape, data.shape[2]), self._dtype)
        if not (top == left == 0 and data.shape[:2] == shape):
            padded.fill(self._pad)
        padded[top : top + data.shape[0], left : left + data.shape[1]] = data
        return padded

    def _present(
        self, memories: Sequence[Any], rows: tuple[int, int]
    ) -> tuple[Array, tuple[int, int], tuple[int, int]]:
        """Return the elements present, where they stand, and the extent that windows cover."""
        window, (first, last) = self._window, rows
        begin = first * window.stride[0]
        end = (last - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0] + 1
        top, left = window.pad
        low, high = max(begin - top, 0), min(end - top, self._source.shape[0])
        data = elements(self._source, memories, (low, max(low, high)))[:, : window.used[1]]
        place = (max(top - begin, 0), left)
        return data, place, (end - begin, window.covered[1])
