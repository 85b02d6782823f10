"""Legal schedules of a vector kernel, ordered by estimate.

The estimate of a step is the largest of its DRAM cycles (whole bursts, and the latency that short
transfers cannot hide), vector cycles and controller cycles; the first load and the last result
are exposed. Fewer, larger tiles win until the exposed ends cost more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from codegen.schedule import Schedule
from codegen.space import Knob
from codegen.tiles import Axis, align
from codegen.transfer_cost import data_cycles
from codegen.vector_kernel import Source, Tile, VectorShape, in_tile
from runtime_sim.npu import NpuConfig

CONTROLLER_CYCLES_PER_STEP, CONTROLLER_CYCLES_PER_LOAD = 70, 35
"""Mean controller cycles of a step's vector command and STORE, and of each LOAD, as measured."""
FIELD_LIMIT = 65535
PIXEL_STRIDE_LIMIT = 65535


@lru_cache(maxsize=1024)
def schedules(shape: VectorShape, passes: int, npu: NpuConfig) -> tuple[Schedule, ...]:
    """Return the legal candidate schedules, cheapest estimate first.

    `passes`: vector passes per output element.
    """
    legal = [s for s in dict.fromkeys(_candidates(shape, npu)) if is_legal(shape, s, npu)]
    return tuple(sorted(legal, key=lambda s: estimate(shape, s, passes, npu)))


def knobs(shape: VectorShape, npu: NpuConfig) -> tuple[Knob, ...]:
    """Return the knobs of a vector kernel."""
    height, width, channels = shape.extent
    return (
        Knob("tile_h", tuple(_parts(height))),
        Knob("tile_w", tuple(_halvings(width, 1))),
        Knob("tile_oc", tuple(_halvings(channels, npu.lanes))),
        Knob("in_buffers", (1, 2, 3)),
        Knob("out_buffers", (1, 2, 3)),
        Knob("prefetch", (0, 1, 2)),
        Knob("unroll", (1, 2, 4)),
    )


def canonical(shape: VectorShape, s: Schedule) -> Schedule:
    """Return the schedule of the same stream with no more buffers and copies than steps."""
    tiles = zip(shape.extent, (s.tile_h, s.tile_w, s.tile_oc))
    steps = math.prod(-(-size // tile) for size, tile in tiles)
    return replace(
        Schedule(tile_h=s.tile_h, tile_w=s.tile_w, tile_oc=s.tile_oc),
        in_buffers=min(s.in_buffers, steps),
        out_buffers=min(s.out_buffers, steps),
        prefetch=min(s.prefetch, s.in_buffers - 1, steps - 1),
        unroll=s.unroll if s.unroll <= steps else 1,
    )


def _candidates(shape: VectorShape, npu: NpuConfig) -> Iterator[Schedule]:
    height, width, channels = shape.extent
    for tile_c in _halvings(channels, npu.lanes):
        for tile_w in _halvings(width, 1):
            for tile_h in _halvings(height, 1):
                yield Schedule(tile_h=tile_h, tile_w=tile_w, tile_oc=tile_c)
                yield Schedule(
                    tile_h=tile_h, tile_w=tile_w, tile_oc=tile_c, in_buffers=1, out_buffers=1
                )


def _parts(size: int) -> list[int]:
    """Return the tile sizes that cut `size` into equal parts, give or take one, largest first."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)}, reverse=True)


def _halvings(size: int, unit: int) -> list[int]:
    """Return tile sizes: the whole, then halves rounded up to `unit`."""
    sizes = [size]
    while sizes[-1] > unit:
        half = -(-sizes[-1] // 2)
        sizes.append(min(sizes[-1] - 1, -(-half // unit) * unit))
    return sizes


def spm_bytes(shape: VectorShape, s: Schedule) -> int:
    """Return the scratchpad that a schedule needs."""
    channels = shape.extent[2]
    total = align(shape.params_bytes)
    for source in shape.sources:
        tile = in_tile(source, s, channels)
        total += align(s.in_buffers * _volume(tile) * source.border.item)
    out = (s.tile_h, s.tile_w, s.tile_oc)
    return total + align(s.out_buffers * _volume(out) * shape.target.item)


def is_legal(shape: VectorShape, s: Schedule, npu: NpuConfig) -> bool:
    """Return whether the kernel fits SPM and the fields."""
    if not s.in_range:
        return False
    tiles = [in_tile(source, s, shape.extent[2]) for source in shape.sources]
    tiles.append((s.tile_h, s.tile_w, s.tile_oc))
    items = [source.border.item for source in shape.sources] + [shape.target.item]
    widest = max(tile[2] * item for tile, item in zip(tiles, items, strict=True))
    if widest > PIXEL_STRIDE_LIMIT or max(max(tile) for tile in tiles) > FIELD_LIMIT:
        return False
    return spm_bytes(shape, s) <= npu.spm_bytes


def estimate(shape: VectorShape, s: Schedule, passes: int, npu: NpuConfig) -> float:
    """Return the cycles of all steps but the first load and the last result, plus those."""
    memory = npu.memory_of(0)
    tiles = [-(-size // tile) for size, tile in zip(shape.extent, (s.tile_h, s.tile_w, s.tile_oc))]
    steps = math.prod(tiles)
    rows, cols, channels = (size / count for size, count in zip(shape.extent, tiles))
    loads = [
        data_cycles(source.border, _read(source, (rows, cols, channels)), memory)
        for source in shape.sources
    ]
    load, store = sum(loads), data_cycles(shape.target, (rows, cols, channels), memory)
    # A load's latency runs from the start of the one before; the store goes after the last load.
    dma = sum(max(cycles, memory.latency) for cycles in loads[:-1])
    dma += max(loads[-1] + store, memory.latency)
    vector = rows * cols * channels * passes / npu.lanes
    controller = CONTROLLER_CYCLES_PER_STEP + CONTROLLER_CYCLES_PER_LOAD * len(loads)
    step = max(dma, vector, controller)
    if s.in_buffers == 1:
        step = max(dma + vector, controller)
    return load + (steps - 1) * step + vector + store + 2 * memory.latency


def _read(source: Source, tile: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the mean rows, columns and channels that a tile of results reads."""
    rows, cols, channels = (tile[axis] for axis in source.order)
    height = 1 if source.broadcasts_rows else _reached(source.rows, rows)
    width = 1 if source.broadcasts_cols else _reached(source.cols, cols)
    if source.chans:
        return height, width, _reached(source.chans, channels)
    return height, width, 1 if source.border.channels == 1 else channels


def _reached(axis: Axis, results: float) -> float:
    return min(axis.size, (results - 1) * axis.stride + axis.reach)


def _volume(tile: Tile) -> int:
    return tile[0] * tile[1] * tile[2]
