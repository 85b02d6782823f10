"""The cost estimate of a convolution schedule: closed form, in cycles, without running anything.

Per step the estimate has the array's, the vector unit's, the DMA engines' and the controller's
cycles for an average tile; DMA counts whole bursts, unaligned runs and the latency that short
transfers cannot hide. Steps overlap where buffers are doubled, so a loop of steps costs its
slowest resource. What cannot overlap is added: the first input and weight tile, resident weights
that hold up the second input tile, the last requantisation and store.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from codegen.conv_plan import RECORD_BYTES, WEIGHT_LOOPS, ConvLayout, ConvShape
from codegen.conv_space import Extents
from codegen.schedule import Schedule
from codegen.tiles import Axis
from codegen.transfer_cost import box_cycles, transfer_cycles
from runtime_sim.npu import NpuConfig

COMMAND_CONTROLLER_CYCLES = {"LOAD": 35, "STORE": 30, "CONV": 50, "REQUANT": 40, "CONVERT": 30}
"""Mean controller cycles of a command in a rolled loop, as measured over typical layers."""


def estimate(shape: ConvShape, s: Schedule, npu: NpuConfig) -> float:
    """Return the estimated cycles of a canonical schedule on one image."""
    return average_step(shape.thinned(), s, npu).total()


def least_cycles(shape: ConvShape, s: Schedule, npu: NpuConfig) -> float:
    """Return the array's cycles in all steps, or those of moving everything once if it is more.

    That is less than the estimate of any schedule with these tiles and this micro-kernel.
    """
    at, memory = ConvLayout(shape, s), npu.memory_of(0)
    spatial = at.row_tiles * at.col_tiles
    cols = _mean_window(shape.cols, s.tile_w, 0)
    rows = (shape.rows.elements_read, cols, shape.source.channels)
    out = _output_extent(shape, at)
    moved = at.col_tiles * box_cycles(shape.source, rows, memory)
    moved += spatial * at.channel_tiles * box_cycles(shape.target, out, memory)
    moved += transfer_cycles(shape.depth * shape.target.channels, memory)
    array = spatial * at.channel_tiles * _array_cycles(shape, s, at, npu)
    return max(array, moved)


@dataclass(frozen=True, slots=True)
class AverageStep:
    """Cycles of an average step, by resource, and how the steps nest.

    A round is the steps of one spatial tile, or of one channel tile where channels are outermost.
    `load` is the mean of all input loads per round; `first_load` is what the first step waits for.
    `weights` are those of one piece, `all_weights` those of a round; resident ones are loaded in
    the first round.
    """

    PER_ROUND: ClassVar[tuple[str, ...]] = ("load", "all_weights", "convert_in")

    rounds: int
    steps: int
    resident: bool
    array: float
    vector: float
    load: float
    first_load: float
    weights: float
    all_weights: float
    params: float
    store: float
    controller: float
    convert_in: float
    latency: int
    overlaps_dma: bool
    overlaps_vector: bool

    def total(self) -> float:
        """Return the cycles of all steps: the first loads alone, then rounds of overlapped steps.

        The first round finds its first input and weight tile loaded, and loads resident weights.
        """
        start = self.latency + self.first_load + self.weights + self.params
        start += self.convert_in / self.steps
        loads = self.load if self.resident else self.load + self.all_weights
        first = max(0.0, self.load + self.all_weights - self.first_load - self.weights)
        rest = (self.rounds - 1) * self._slowest(loads)
        drain = self.vector + self.store + self.latency
        return start + self._slowest(first) + rest + drain

    def _slowest(self, loads: float) -> float:
        """Return the cycles of a round that loads for `loads` cycles."""
        dma = loads + self.steps * self.store
        vector = self.steps * self.vector + self.convert_in
        array, controller = self.steps * self.array, self.steps * self.controller
        if not self.overlaps_dma:
            return max(array + vector + dma, controller)
        if not self.overlaps_vector:
            return max(array + vector, dma, controller)
        return max(array, vector, dma, controller)


def average_step(shape: ConvShape, s: Schedule, npu: NpuConfig) -> AverageStep:
    """Return what the estimate of a schedule is made of."""
    extents, memory = Extents.of(shape, s), npu.memory_of(0)
    at, counts = extents.at, extents.counts
    spatial, channels = counts["row"] * counts["col"], counts["channel"]
    tiles, channel_outer = spatial * channels, s.order == "channel_outer"
    rounds = channels if channel_outer else spatial
    out = _output_extent(shape, at)
    loads, _ = extents.uses(at.input_loops)
    pieces, _ = extents.uses(WEIGHT_LOOPS)
    tile_weights = shape.depth * shape.target.channels / channels
    weights = transfer_cycles(tile_weights / at.depth_tiles, memory)
    extent = _input_extent(shape, s, at)
    load = box_cycles(shape.source, extent, memory)
    volume = out[0] * out[1] * out[2]
    passes = (2 if at.converts_out else 1) / npu.lanes
    store = box_cycles(shape.target, out, memory)
    overlaps = s.out_buffers > 1 or tiles == 1
    overlaps &= s.in_buffers > 1 or loads == 1
    overlaps &= s.weight_buffers > 1 or s.weights == "resident" or pieces == 1
    return AverageStep(
        rounds=rounds,
        steps=tiles // rounds,
        resident=s.weights == "resident" and not channel_outer,
        array=_array_cycles(shape, s, at, npu),
        vector=volume * passes,
        load=load * loads / rounds,
        first_load=load * _first_rows(shape, s) / extent[0],
        weights=weights,
        all_weights=weights * at.depth_tiles * (1 if channel_outer else channels),
        params=transfer_cycles(RECORD_BYTES * shape.target.channels, memory),
        store=store,
        controller=_controller_cycles(s, at, loads / tiles),
        convert_in=at.in_bytes / npu.lanes * loads / rounds if at.converts_in else 0,
        latency=memory.latency,
        overlaps_dma=overlaps,
        overlaps_vector=s.acc_buffers > 1 or tiles == at.acc_tiles,
    )


def _output_extent(shape: ConvShape, at: ConvLayout) -> tuple[float, float, float]:
    """Return the mean (rows, columns, channels) of an output tile."""
    return (shape.rows.out / at.row_tiles, shape.cols.out / at.col_tiles,
            shape.target.channels / at.channel_tiles)  # fmt: skip


def _input_extent(shape: ConvShape, s: Schedule, at: ConvLayout) -> tuple[float, float, float]:
    """Return the mean (rows, columns, channels) of an input tile, halo included."""
    missing = s.tile_h - s.first_tile_h if s.first_tile_h else 0
    rows = _mean_window(shape.rows, min(s.load_tiles * s.tile_h, shape.rows.out + missing), missing)
    cols = _mean_window(shape.cols, s.tile_w, 0)
    if s.halo == "keep":
        rows = shape.rows.elements_read / -(-at.row_tiles // s.load_tiles)
    if shape.depthwise:
        return rows, cols, shape.source.channels / at.channel_tiles
    if at.slices_depth:
        return rows, cols, shape.group_in / at.depth_tiles
    return rows, cols, at.in_tile[2]


def _first_rows(shape: ConvShape, s: Schedule) -> int:
    """Return the rows of the first input load."""
    missing = s.tile_h - s.first_tile_h if s.first_tile_h else 0
    return _window(shape.rows, 0, min(s.load_tiles * s.tile_h - missing, shape.rows.out))


@lru_cache(maxsize=4096)
def _mean_window(axis: Axis, tile: int, missing: int) -> float:
    """Return the mean input extent of an axis' tiles; the first is shorter by `missing`."""
    count = -(-(axis.out + missing) // tile)
    starts = [max(0, index * tile - missing) for index in range(count)]
    ends = [*starts[1:], axis.out]
    return sum(_window(axis, start, end) for start, end in zip(starts, ends)) / count


def _window(axis: Axis, start: int, end: int) -> int:
    """Return how many inputs the outputs [start, end) read; padding is not loaded."""
    first = max(0, start * axis.stride - axis.pad)
    return min(axis.size, (end - 1) * axis.stride - axis.pad + axis.reach) - first


def _array_cycles(shape: ConvShape, s: Schedule, at: ConvLayout, npu: NpuConfig) -> float:
    """Return the array's cycles in a step, averaged over full and edge tiles."""
    tiles = [
        (rows * cols, row_count * col_count)
        for rows, row_count in _row_sizes(shape, s)
        for cols, col_count in _tile_sizes(shape.cols.out, s.tile_w)
    ]
    total = sum(count * _command_cycles(shape, s, at, npu, pixels) for pixels, count in tiles)
    return total / sum(count for _, count in tiles)


def _row_sizes(shape: ConvShape, s: Schedule) -> list[tuple[int, int]]:
    """Return (rows, how many) of the first tile, the full ones and the last, shorter one."""
    first = [(s.first_tile_h, 1)] if s.first_tile_h else []
    return first + _tile_sizes(shape.rows.out - s.first_tile_h, s.tile_h)


def _tile_sizes(size: int, tile: int) -> list[tuple[int, int]]:
    """Return (size, how many) of the full tiles and of the last, shorter one."""
    full, rest = divmod(size, tile)
    return [(length, count) for length, count in ((tile, full), (rest, 1)) if length and count]


def _command_cycles(
    shape: ConvShape, s: Schedule, at: ConvLayout, npu: NpuConfig, pixels: int
) -> float:
    """Return the array's cycles in a step of `pixels`, averaged over the channel tiles."""
    fill = npu.array_rows + npu.array_cols - 2
    if shape.depthwise:
        columns = math.ceil(shape.target.channels / at.channel_tiles / npu.array_cols)
        rate = npu.array_rows * npu.depthwise_rate
        return columns * math.ceil(pixels * shape.taps / rate) + fill
    tiles = -(-shape.group_out // s.tile_oc)
    blocks = math.ceil(shape.group_out / npu.array_cols) / tiles
    streamed: float = max(pixels, npu.array_rows)
    if s.micro_kernel == "pixel_stationary":
        blocks = math.ceil(pixels / npu.array_cols)
        streamed = max(shape.group_out / tiles, npu.array_rows)
    if s.micro_kernel == "packed_taps":
        passes = math.ceil(shape.depth / npu.array_rows)
    else:
        passes = shape.taps * math.ceil(s.tile_ic / npu.array_rows)
    return (blocks * passes * streamed + fill) * at.depth_tiles


def _controller_cycles(s: Schedule, at: ConvLayout, loads: float) -> float:
    """Return the controller's cycles for an output tile with `loads` input loads."""
    cost = COMMAND_CONTROLLER_CYCLES
    total: float = cost["REQUANT"] + cost["STORE"] + cost["CONV"] * at.depth_tiles
    total += cost["CONVERT"] if at.converts_out else 0
    total += loads * (cost["LOAD"] + (cost["CONVERT"] if at.converts_in else 0))
    if s.weights == "stream" and s.order != "channel_outer":
        total += cost["LOAD"] * at.depth_tiles
    return total
