"""What the commands of convolution schedules cost, exactly, for many schedules at once.

Tile sizes come from few values an axis. Each axis is tiled once per value; what depends on two
axes is a table over their tilings, and a schedule picks its entries. The sums are those of
`runtime_sim.cost` and `runtime_sim.traffic` over the commands of `convolution.ConvKernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.borders import Border
from codegen.conv_plan import ConvShape
from codegen.tiles import Axis
from codegen.transfer_counts import Windows, bursts_of_tiles
from runtime_sim.npu import NpuConfig

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[np.generic]]
"""One array per field of Schedule, with an entry per schedule."""


@dataclass(frozen=True, slots=True)
class ConvCosts:
    """Costs per schedule. Cycles are engine cycles; `first_` and `last_` are of single tiles.

    `tiles`: output tiles. `steps`: matrix commands. `input_uses`, `weight_uses`: loads of each.
    `vector` is the requantisation of all tiles, `convert_in` and `convert_out` the conversions.
    """

    rows: Ints
    cols: Ints
    channels: Ints
    depths: Ints
    input_uses: Ints
    weight_uses: Ints
    matrix: Floats
    first_matrix: Floats
    vector: Floats
    last_vector: Floats
    convert_in: Floats
    first_convert: Floats
    input: Floats
    first_input: Floats
    weights: Floats
    first_weights: Floats
    once: Floats
    store: Floats
    last_store: Floats

    @property
    def tiles(self) -> Ints:
        """Return the output tiles."""
        return self.rows * self.cols * self.channels

    @property
    def steps(self) -> Ints:
        """Return the matrix commands."""
        return self.tiles * self.depths


def tile_windows(size: int, tile: int, first: int = 0) -> list[tuple[int, int]]:
    """Return the tiles of an axis of `size`: `tile` each, but `first` (if not 0) in the first."""
    missing = tile - first if first and tile < size else 0
    count = max(1, -(-(size + missing) // tile))
    starts = [max(0, index * tile - missing) for index in range(count)]
    return list(zip(starts, [*starts[1:], size], strict=True))


def input_window(axis: Axis, window: tuple[int, int]) -> tuple[int, int]:
    """Return the inputs that a window of outputs reads; padding is none."""
    first = max(0, window[0] * axis.stride - axis.pad)
    return first, min(axis.size, (window[1] - 1) * axis.stride - axis.pad + axis.reach)


class _Tilings:
    """The distinct tilings of one axis, and which of them each schedule has."""

    def __init__(self, keys: Sequence[NDArray[np.generic]], cut: Callable[..., Windows]) -> None:
        stacked = np.stack([np.asarray(key, np.int64) for key in keys], axis=1)
        distinct, inverse = np.unique(stacked, axis=0, return_inverse=True)
        self.windows = [cut(*key) for key in distinct.tolist()]
        self.keys = distinct
        self.of = inverse.reshape(-1)

    @property
    def counts(self) -> Ints:
        """Return how many tiles each schedule has along the axis."""
        return np.array([len(windows) for windows in self.windows], np.int64)[self.of]

    def sizes(self) -> tuple[Ints, Ints]:
        """Return the distinct tile sizes, and how many tiles of each every tiling has."""
        lengths = [[stop - begin for begin, stop in windows] for windows in self.windows]
        values = sorted({length for tiling in lengths for length in tiling})
        counts = np.array([[tiling.count(value) for value in values] for tiling in lengths])
        return np.array(values, np.int64), counts.astype(np.int64)

    def ends(self) -> tuple[Ints, Ints]:
        """Return the sizes of the first and the last tile of every tiling."""
        sizes = [[w[i][1] - w[i][0] for w in self.windows] for i in (0, -1)]
        return np.array(sizes[0], np.int64), np.array(sizes[1], np.int64)


Measure = Callable[[Ints], NDArray[np.number]]
"""What a tile of so many pixels costs."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The tilings of the rows and the columns."""

    rows: _Tilings
    cols: _Tilings

    def total(self, cost: Measure) -> Floats:
        """Return the cost of all tiles, per schedule."""
        (heights, row_counts), (widths, col_counts) = self.rows.sizes(), self.cols.sizes()
        table = row_counts @ cost(heights[:, None] * widths) @ col_counts.T
        return np.asarray(table[self.rows.of, self.cols.of], np.float64)

    def of_end(self, index: int, cost: Measure) -> Floats:
        """Return the cost of the first (0) or the last (1) tile, per schedule."""
        height, width = self.rows.ends()[index], self.cols.ends()[index]
        return np.asarray(cost(height[:, None] * width)[self.rows.of, self.cols.of], np.float64)

    def bursts(
        self, border: Border, channels: Windows, burst: int
    ) -> tuple[Floats, Floats, Floats]:
        """Return the bursts of all tiles, the first and the last, per schedule."""
        tables = bursts_of_tiles(border, self.rows.windows, self.cols.windows, channels, burst)
        at = self.rows.of, self.cols.of
        return tuple(  # type: ignore[return-value]
            table[at].astype(np.float64) for table in (tables.all, tables.first, tables.last)
        )


class ConvCosting:
    """Works out ConvCosts of one shape on one NPU."""

    def __init__(self, shape: ConvShape, npu: NpuConfig, columns: Columns) -> None:
        """Tile the axes as the schedules ask."""
        shape = shape.thinned()
        self.shape, self.npu, self.s = shape, npu, columns
        self.count = len(columns["tile_h"])
        rows, cols = shape.rows, shape.cols
        first = columns.get("first_tile_h", np.zeros(self.count, np.int64))
        together = columns.get("load_tiles", np.ones(self.count, np.int64))
        col_keys = (columns["tile_w"],)
        self.out = _Grid(
            _Tilings((columns["tile_h"], first), lambda h, f: tile_windows(rows.out, h, f)),
            _Tilings(col_keys, lambda w: tile_windows(cols.out, w)),
        )
        self.input = _Grid(
            _Tilings(
                (columns["tile_h"], first, together),
                lambda h, f, n: [input_window(rows, w) for w in blocks(rows.out, h, f, n)],
            ),
            _Tilings(
                col_keys, lambda w: [input_window(cols, w) for w in tile_windows(cols.out, w)]
            ),
        )
        self.channel = _Tilings((columns["tile_oc"],), self._channel_windows)
        self.depth = _Tilings((columns["tile_ic"],), self._depth_windows)
        self.counts = {
            "row": self.out.rows.counts, "col": self.out.cols.counts,
            "channel": self.channel.counts, "depth": self.depth.counts,
        }  # fmt: skip

    def _channel_windows(self, tile: int) -> Windows:
        shape = self.shape
        groups = 1 if shape.depthwise else shape.groups
        inner = tile_windows(shape.group_out, tile)
        return [(g * shape.group_out + a, g * shape.group_out + b) for g in range(groups)
                for a, b in inner]  # fmt: skip

    def _depth_windows(self, tile: int) -> Windows:
        return [(0, 1)] if self.shape.depthwise else tile_windows(self.shape.group_in, tile)

    # --- the engines ------------------------------------------------------------------------------

    def matrix(self) -> tuple[Floats, Floats]:
        """Return the array's cycles of all tiles, and of the first one."""
        npu = self.npu
        fill = npu.array_rows + npu.array_cols - 2
        total, first = self._passes()
        pixels = self._pixels()
        steps = self.counts["row"] * self.counts["col"] * self.counts["channel"]
        all_tiles = self.out.total(pixels) * total
        first_tile = self.out.of_end(0, pixels) * first
        if not self.shape.depthwise:
            swapped = self.s["micro_kernel"] == "pixel_stationary"
            all_swapped, first_swapped = self._with_pixels_stationary()
            all_tiles = np.where(swapped, all_swapped, all_tiles)
            first_tile = np.where(swapped, first_swapped, first_tile)
        depths = self.counts["depth"]
        return all_tiles + fill * steps * depths, first_tile + fill * depths

    def _with_pixels_stationary(self) -> tuple[Floats, Floats]:
        """Return the array's cycles of all tiles and of the first one where pixels stay in it."""
        npu, channel = self.npu, self.channel
        streamed = [[max(b - a, npu.array_rows) for a, b in w] for w in channel.windows]
        total = np.array([sum(tiling) for tiling in streamed], np.int64)[channel.of]
        first = np.array([tiling[0] for tiling in streamed], np.int64)[channel.of]
        passes = self.shape.taps * self._depth_blocks()
        all_tiles = self.out.total(self._pixel_blocks) * total * passes
        return all_tiles, self.out.of_end(0, self._pixel_blocks) * first * passes

    def _pixel_blocks(self, pixels: Ints) -> Ints:
        """Return the blocks of array columns that pixels fill where they stay in the array."""
        return -(-pixels // self.npu.array_cols)

    def _depth_blocks(self) -> Ints:
        """Return the blocks of array rows that the input channels of a tap fill."""
        rows = self.npu.array_rows
        blocks_of = [sum(-(-(b - a) // rows) for a, b in w) for w in self.depth.windows]
        return np.array(blocks_of, np.int64)[self.depth.of]

    def _pixels(self) -> Measure:
        """Return what a pass over a tile of pixels costs the array."""
        shape, npu = self.shape, self.npu
        if shape.depthwise:
            rate = npu.array_rows * npu.depthwise_rate
            return lambda pixels: np.ceil(pixels * shape.taps / rate)
        return lambda pixels: np.maximum(pixels, npu.array_rows)

    def _passes(self) -> tuple[Ints, Ints]:
        """Return the passes per pixel block: of all channel tiles, and of the first one."""
        shape, npu = self.shape, self.npu
        packed = self.s["micro_kernel"] == "packed_taps"
        blocks_of = [
            [-(-(b - a) // npu.array_cols) for a, b in tiling] for tiling in self.channel.windows
        ]
        columns = np.array([sum(tiling) for tiling in blocks_of], np.int64)[self.channel.of]
        first = np.array([tiling[0] for tiling in blocks_of], np.int64)[self.channel.of]
        if shape.depthwise:
            return columns, first
        dense = -(-shape.depth // npu.array_rows)
        per_column = np.where(packed, dense, shape.taps * self._depth_blocks())
        return columns * per_column, first * per_column

    def vector(self) -> tuple[Floats, Floats]:
        """Return the vector unit's cycles of a pass over all output tiles, and over the last."""
        total, last = np.zeros(self.count), np.zeros(self.count)
        sizes, counts = self.channel.sizes()
        final = self.channel.ends()[1]
        for column, size in enumerate(sizes.tolist()):
            per_tile = lane_passes(size, self.npu.lanes)
            total += counts[self.channel.of, column] * self.out.total(per_tile)
            mine = final[self.channel.of] == size
            last[mine] = self.out.of_end(1, per_tile)[mine]
        return total, last


def blocks(size: int, tile: int, first: int, together: int) -> Windows:
    """Return the tiles of an axis, `together` of them as one."""
    tiles = tile_windows(size, tile, first)
    groups = [tiles[i : i + together] for i in range(0, len(tiles), together)]
    return [(group[0][0], group[-1][1]) for group in groups]


def lane_passes(channels: int, lanes: int) -> Measure:
    """Return the vector cycles of a tile of so many channels."""
    return lambda pixels: -(-(pixels * channels) // lanes)
