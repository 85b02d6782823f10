"""How many bursts a convolution's transfers take, for all tilings of its axes at once.

A tile is a window of rows, a window of columns and a slice of channels; a transfer moves one. Its
runs follow `borders.dma`, and adjacent runs merge as `runtime_sim.traffic` merges them. Since a
tile's bursts are a sum over its pixels (or rows), the bursts of all tiles of a tiling are products
of small matrices: how often each row is moved, times the bursts of a row's runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.borders import Border

Ints = NDArray[np.int64]
Windows = Sequence[tuple[int, int]]
"""Half-open ranges of an axis, one per tile."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Bursts per (row tiling, column tiling): of all tiles, of the first and of the last."""

    all: Ints
    first: Ints
    last: Ints


def bursts_of_tiles(
    border: Border,
    rows: Sequence[Windows],
    cols: Sequence[Windows],
    channels: Windows,
    burst: int,
) -> Tables:
    """Return the bursts of a tensor's transfers where each tile is moved once.

    `rows` and `cols`: the windows of each tiling, in elements that are seen; `channels`: the
    slices, the same for all tilings. The tensor starts at a burst's boundary.
    """
    spans = sorted({w for tiling in cols for w in tiling})
    index = {window: i for i, window in enumerate(spans)}
    pick = np.zeros((len(spans), len(cols)), np.int64)
    for column, tiling in enumerate(cols):
        for window in tiling:
            pick[index[window], column] += 1
    first = [index[tiling[0]] for tiling in cols]
    last = [index[tiling[-1]] for tiling in cols]
    counter = _Counter(border, burst)
    totals = sum(counter.of(rows, spans, slice_) for slice_ in channels)
    ends = [[tiling[0] for tiling in rows], [tiling[-1] for tiling in rows]]
    starts = counter.of([[w] for w in ends[0]], spans, channels[0])
    stops = counter.of([[w] for w in ends[1]], spans, channels[-1])
    return Tables(np.asarray(totals) @ pick, starts[:, first], stops[:, last])


@dataclass(frozen=True, slots=True)
class _Counter:
    border: Border
    burst: int

    def of(self, rows: Sequence[Windows], spans: Windows, channels: tuple[int, int]) -> Ints:
        """Return the bursts of every (row tiling, column window) for one slice of channels."""
        b = self.border
        if b.planar:
            return self._planes(rows, spans, channels)
        if channels == (0, b.channels) and b.step[1] == 1:
            return self._rows(rows, spans, 0)
        return self._pixels(rows, spans, channels)

    def _planes(self, rows: Sequence[Windows], spans: Windows, channels: tuple[int, int]) -> Ints:
        """Return bursts where each row of each plane is one run, or whole planes are."""
        b = self.border
        plane = b.height * b.width * b.item
        each = np.asarray(sum(self._rows(rows, spans, c * plane) for c in range(*channels)))
        if b.step == (1, 1) and (0, b.width) in spans:
            run = np.int64((channels[1] - channels[0]) * plane)
            whole = self._touched(np.array([channels[0] * plane]), run)[0]
            for row, tiling in enumerate(rows):
                if tuple(tiling) == ((0, b.height),):
                    each[row, list(spans).index((0, b.width))] = whole
        return each

    def _rows(self, rows: Sequence[Windows], spans: Windows, offset: int) -> Ints:
        """Return bursts where each row of a tile is one run, or all of them are."""
        b, pitch = self.border, self.border.row_pitch
        heights = range(max((stop for tiling in rows for _, stop in tiling), default=0))
        starts = offset + np.arange(len(heights), dtype=np.int64)[:, None] * pitch
        pixel = b.pixel_pitch
        begins = np.array([begin for begin, _ in spans], np.int64) * pixel
        runs = np.array([stop - begin for begin, stop in spans], np.int64) * pixel
        each = _moved(rows, len(heights)) @ self._touched(starts + begins, runs)
        for column in np.flatnonzero(runs == pitch).tolist():
            each[:, column] = [self._merged(tiling, offset) for tiling in rows]
        return each

    def _merged(self, tiling: Windows, offset: int) -> int:
        pitch = self.border.row_pitch
        begins = np.array([begin for begin, _ in tiling], np.int64) * pitch
        runs = np.array([stop - begin for begin, stop in tiling], np.int64) * pitch
        return int(self._touched(offset + begins, runs).sum())

    def _pixels(self, rows: Sequence[Windows], spans: Windows, channels: tuple[int, int]) -> Ints:
        """Return bursts where each pixel of a tile is one run."""
        b = self.border
        height = max((stop for tiling in rows for _, stop in tiling), default=0)
        width = max((stop for _, stop in spans), default=0)
        begin, run = channels[0] * b.item, (channels[1] - channels[0]) * b.item
        y = np.arange(height, dtype=np.int64)[:, None] * b.row_pitch
        x = np.arange(width, dtype=np.int64)[None, :] * b.pixel_pitch
        touched = self._touched(y + x + begin, np.int64(run))
        each = _moved(rows, height) @ touched @ _moved([[w] for w in spans], width).T
        if run == b.row_pitch:
            for column in (i for i, (begin_, stop) in enumerate(spans) if stop - begin_ == 1):
                each[:, column] = [self._merged(tiling, begin) for tiling in rows]
        return each

    def _touched(self, begin: Ints, run: Ints | np.int64) -> Ints:
        phase = begin % self.burst
        return np.asarray((phase + run - 1) // self.burst + 1)


def _moved(tilings: Sequence[Windows], size: int) -> Ints:
    """Return how often each tiling moves each element of an axis of `size`."""
    edges = np.zeros((len(tilings), size + 1), np.int64)
    for row, tiling in enumerate(tilings):
        for begin, stop in tiling:
            edges[row, begin] += 1
            edges[row, stop] -= 1
    return np.cumsum(edges, axis=1)[:, :size]
