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

from codegen.conv_plan import RECORD_BYTES, ConvLayout, ConvShape
from codegen.schedule import Schedule
from codegen.tiles import Axis
from codegen.transfer_cost import box_cycles, transfer_cycles
from runtime_sim.npu import NpuConfig

COMMAND_CONTROLLER_CYCLES = {"LOAD": 35, "STORE": 30, "CONV": 50, "REQUANT": 40, "CONVERT": 30}
"""Mean controller cycles of a command in a rolled loop, as measured over typical layers."""


def estimate(shape: ConvShape, s: Schedule, npu: NpuConfig) -> float:
    """Return the estimated cycles of a schedule on one image."""
    return average_step(shape, s, npu).total(s.weights == "resident")


@dataclass(frozen=True, slots=True)
class _AverageStep:
    """Cycles of an average step, by resource, and how many steps there are."""

    spatial: int
    channels: int
    channel_outer: bool
    reloads_input: bool
    array: float
    vector: float
    load: float
    weights: float
    all_weights: float
    params: float
    store: float
    controller: float
    convert_in: float
    latency: int
    overlaps_dma: bool
    overlaps_vector: bool

    def total(self, resident: bool) -> float:
        """Return the cycles of all steps: the first loads alone, then loops of overlapped steps.

        A loop is the steps of a spatial tile, or of a channel tile where that is the outer one;
        the first loop finds its first input and weight tile loaded, and loads resident weights.
        """
        start = self.latency + self.load + self.convert_in + self.weights + self.params
        loaded = self.load + self.weights
        if self.channel_outer:
            loops, steps = self.channels, self.spatial
            first = loads = steps * self.load + self.weights
        else:
            loops, steps = self.spatial, self.channels
            loads = (steps if self.reloads_input else 1) * self.load
            first = loads + self.all_weights
            loads += 0 if resident else self.all_weights
        rest = (loops - 1) * self._slowest(steps, loads)
        return start + self._slowest(steps, first - loaded) + rest + self._drain()

    def _slowest(self, steps: int, loads: float) -> float:
        """Return the cycles of `steps` steps that load for `loads` cycles."""
        inputs = steps if self.reloads_input else 1
        dma = loads + steps * self.store
        vector = steps * self.vector + inputs * self.convert_in
        array, controller = steps * self.array, steps * self.controller
        if not self.overlaps_dma:
            return max(array + vector + dma, controller)
        if not self.overlaps_vector:
            return max(array + vector, dma, controller)
        return max(array, vector, dma, controller)

    def _drain(self) -> float:
        return self.vector + self.store + self.latency


def average_step(shape: ConvShape, s: Schedule, npu: NpuConfig) -> _AverageStep:
    at, memory = ConvLayout(shape, s), npu.memory_of(0)
    row_tiles = -(-shape.rows.out // s.tile_h)
    spatial = row_tiles * at.col_tiles
    out = (shape.rows.out / row_tiles, shape.cols.out / at.col_tiles, _mean_channels(shape, at))
    reloads = shape.depthwise or s.order == "channel_outer"
    weight_tile = shape.depth * shape.target.channels / at.channel_tiles
    weights = transfer_cycles(weight_tile / at.depth_tiles, memory) * at.depth_tiles
    load = box_cycles(shape.source, _input_extent(shape, s, at), memory)
    volume = out[0] * out[1] * out[2]
    converted = at.in_bytes / npu.lanes if at.converts_in else 0
    buffers = min(s.in_buffers, s.out_buffers)
    if s.weights == "stream":
        buffers = min(buffers, s.weight_buffers)
    alone = spatial * at.channel_tiles == 1
    return _AverageStep(
        spatial=spatial,
        channels=at.channel_tiles,
        channel_outer=s.order == "channel_outer",
        reloads_input=reloads,
        array=_array_cycles(shape, s, at, npu),
        vector=volume * (2 if at.converts_out else 1) / npu.lanes,
        load=load,
        weights=weights,
        all_weights=weights * at.channel_tiles,
        params=transfer_cycles(RECORD_BYTES * shape.target.channels, memory),
        store=box_cycles(shape.target, out, memory),
        controller=_controller_cycles(s, at, reloads),
        convert_in=converted,
        latency=memory.latency,
        overlaps_dma=buffers > 1 or alone,
        overlaps_vector=s.acc_buffers > 1 or alone,
    )


def _mean_channels(shape: ConvShape, at: ConvLayout) -> float:
    return shape.target.channels / at.channel_tiles


def _input_extent(shape: ConvShape, s: Schedule, at: ConvLayout) -> tuple[float, float, float]:
    """Return the mean (rows, columns, channels) of an input tile, halo included."""
    height, width = _mean_window(shape.rows, s.tile_h), _mean_window(shape.cols, s.tile_w)
    if shape.depthwise:
        return height, width, shape.source.channels / at.channel_tiles
    return height, width, shape.source.channels


@lru_cache(maxsize=4096)
def _mean_window(axis: Axis, tile: int) -> float:
    """Return the mean input extent of an axis' tiles; padding is not loaded."""
    total, count = 0, -(-axis.out // tile)
    for index in range(count):
        first, last = index * tile, min(axis.out, (index + 1) * tile) - 1
        start = max(0, first * axis.stride - axis.pad)
        total += min(axis.size, last * axis.stride - axis.pad + axis.reach) - start
    return total / count


def _array_cycles(shape: ConvShape, s: Schedule, at: ConvLayout, npu: NpuConfig) -> float:
    """Return the array's cycles in a step, averaged over full and edge tiles."""
    tiles = [
        (rows * cols, row_count * col_count)
        for rows, row_count in _tile_sizes(shape.rows.out, s.tile_h)
        for cols, col_count in _tile_sizes(shape.cols.out, s.tile_w)
    ]
    total = sum(count * _command_cycles(shape, s, at, npu, pixels) for pixels, count in tiles)
    return total / sum(count for _, count in tiles)


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
        columns = math.ceil(_mean_channels(shape, at) / npu.array_cols)
        rate = npu.array_rows * npu.depthwise_rate
        return columns * math.ceil(pixels * shape.taps / rate) + fill
    blocks = math.ceil(shape.group_out / npu.array_cols) / -(-shape.group_out // s.tile_oc)
    if s.micro_kernel == "packed_taps":
        passes = math.ceil(shape.depth / npu.array_rows)
    else:
        passes = shape.taps * math.ceil(s.tile_ic / npu.array_rows)
    return (blocks * passes * max(pixels, npu.array_rows) + fill) * at.depth_tiles


def _controller_cycles(s: Schedule, at: ConvLayout, reloads: bool) -> float:
    """Return the controller's cycles in an average step."""
    cost = COMMAND_CONTROLLER_CYCLES
    total: float = cost["REQUANT"] + cost["STORE"] + cost["CONV"] * at.depth_tiles
    total += cost["CONVERT"] if at.converts_out else 0
    loads = 1.0 if reloads else 1 / at.channel_tiles
    total += loads * (cost["LOAD"] + (cost["CONVERT"] if at.converts_in else 0))
    if s.weights == "stream" and s.order == "spatial_outer":
        total += cost["LOAD"] * at.depth_tiles
    return total
