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
    totals = _Counter(border, burst, rows, spans).total(channels)
    ends = [[[tiling[index]] for tiling in rows] for index in (0, -1)]
    starts = _Counter(border, burst, ends[0], spans).of(channels[0])
    stops = _Counter(border, burst, ends[1], spans).of(channels[-1])
    return Tables(totals @ pick, starts[:, first], stops[:, last])


class _Counter:
    """Counts the bursts of every (row tiling, column window)."""

    def __init__(self, border: Border, burst: int, rows: Sequence[Windows], spans: Windows) -> None:
        self.border, self.burst, self.rows, self.spans = border, burst, rows, spans
        self.height = max((stop for tiling in rows for _, stop in tiling), default=0)
        self.width = max((stop for _, stop in spans), default=0)
        self.moved = _moved(rows, self.height)

    def total(self, channels: Windows) -> Ints:
        """Return the bursts of all slices; those of pixels are alike by size and phase."""
        if self.border.planar:
            return np.asarray(sum(self.of(slice_) for slice_ in channels))
        alike: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for begin, stop in channels:
            phase = begin * self.border.item % self.burst
            alike.setdefault((phase, stop - begin), []).append((begin, stop))
        return np.asarray(sum(len(slices) * self.of(slices[0]) for slices in alike.values()))

    def of(self, channels: tuple[int, int]) -> Ints:
        """Return the bursts of one slice of channels."""
        b = self.border
        if b.planar:
            return self._planes(channels)
        if channels == (0, b.channels) and b.step[1] == 1:
            return self._rows(0)
        return self._pixels(channels)

    def _planes(self, channels: tuple[int, int]) -> Ints:
        """Return bursts where each row of each plane is one run, or whole planes are."""
        b = self.border
        plane = b.height * b.width * b.item
        each = np.asarray(sum(self._rows(c * plane) for c in range(*channels)))
        if b.step == (1, 1) and (0, b.width) in self.spans:
            run = np.int64((channels[1] - channels[0]) * plane)
            whole = self._touched(np.array([channels[0] * plane]), run)[0]
            for row, tiling in enumerate(self.rows):
                if tuple(tiling) == ((0, b.height),):
                    each[row, list(self.spans).index((0, b.width))] = whole
        return each

    def _rows(self, offset: int) -> Ints:
        """Return bursts where each row of a tile is one run, or all of them are."""
        pitch, pixel = self.border.row_pitch, self.border.pixel_pitch
        starts = offset + np.arange(self.height, dtype=np.int64)[:, None] * pitch
        begins = np.array([begin for begin, _ in self.spans], np.int64) * pixel
        runs = np.array([stop - begin for begin, stop in self.spans], np.int64) * pixel
        each = self.moved @ self._touched(starts + begins, runs)
        for column in np.flatnonzero(runs == pitch).tolist():
            each[:, column] = [self._merged(tiling, offset) for tiling in self.rows]
        return each

    def _merged(self, tiling: Windows, offset: int) -> int:
        pitch = self.border.row_pitch
        begins = np.array([begin for begin, _ in tiling], np.int64) * pitch
        runs = np.array([stop - begin for begin, stop in tiling], np.int64) * pitch
        return int(self._touched(offset + begins, runs).sum())

    def _pixels(self, channels: tuple[int, int]) -> Ints:
        """Return bursts where each pixel of a tile is one run."""
        b = self.border
        begin, run = channels[0] * b.item, (channels[1] - channels[0]) * b.item
        y = np.arange(self.height, dtype=np.int64)[:, None] * b.row_pitch
        x = np.arange(self.width, dtype=np.int64)[None, :] * b.pixel_pitch
        # Sums of whole rows up to each column give those of every window.
        touched = self.moved @ self._touched(y + x + begin, np.int64(run))
        before = np.cumsum(np.pad(touched, ((0, 0), (1, 0))), axis=1)
        begins, stops = np.array(self.spans, np.int64).reshape(-1, 2).T
        each = before[:, stops] - before[:, begins]
        if run == b.row_pitch:
            for column in np.flatnonzero(stops - begins == 1).tolist():
                each[:, column] = [self._merged(tiling, begin) for tiling in self.rows]
        return each

    def _touched(self, begin: Ints, run: Ints | np.int64) -> Ints:
        phase = begin % self.burst
        return np.asarray((phase + run - 1) // self.burst + 1)


def _moved(tilings: Sequence[Windows], size: int) -> Ints:
    """Return how often each tiling moves each element of an axis of `size`."""
    edges = np.zeros((len(tilings), size + 1), np.int64)
    for row, tiling in enumerate(tilings):
        begins, stops = np.array(tiling, np.int64).reshape(-1, 2).T
        np.add.at(edges[row], begins, 1)
        np.subtract.at(edges[row], stops, 1)
    return np.cumsum(edges, axis=1)[:, :size]
