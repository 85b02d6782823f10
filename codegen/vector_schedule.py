"""Legal schedules of a vector kernel, ordered by estimate.

The estimate is the larger of DRAM and vector cycles (and controller cycles per step), plus the
exposed first load and last store. Fewer, larger tiles win until the exposed ends cost more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from codegen.schedule import Schedule
from codegen.tiles import align
from codegen.vector_kernel import Tile, VectorShape, in_tile
from runtime_sim.npu import NpuConfig

CONTROLLER_CYCLES_PER_STEP = 150
FIELD_LIMIT = 65535
PIXEL_STRIDE_LIMIT = 65535


@lru_cache(maxsize=1024)
def schedules(shape: VectorShape, passes: int, npu: NpuConfig) -> tuple[Schedule, ...]:
    """Return the legal candidate schedules, cheapest estimate first.

    `passes`: vector passes per output element.
    """
    legal = [s for s in dict.fromkeys(_candidates(shape, npu)) if is_legal(shape, s, npu)]
    return tuple(sorted(legal, key=lambda s: _estimate(shape, s, passes, npu)))


def _candidates(shape: VectorShape, npu: NpuConfig) -> Iterator[Schedule]:
    height, width, channels = shape.extent
    for tile_c in _halvings(channels, npu.lanes):
        for tile_w in _halvings(width, 1):
            for tile_h in _halvings(height, 1):
                yield Schedule(tile_h=tile_h, tile_w=tile_w, tile_oc=tile_c)
                yield Schedule(
                    tile_h=tile_h, tile_w=tile_w, tile_oc=tile_c, in_buffers=1, out_buffers=1
                )


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
    tiles = [in_tile(source, s, shape.extent[2]) for source in shape.sources]
    tiles.append((s.tile_h, s.tile_w, s.tile_oc))
    items = [source.border.item for source in shape.sources] + [shape.target.item]
    widest = max(tile[2] * item for tile, item in zip(tiles, items, strict=True))
    if widest > PIXEL_STRIDE_LIMIT or max(max(tile) for tile in tiles) > FIELD_LIMIT:
        return False
    return spm_bytes(shape, s) <= npu.spm_bytes


def _estimate(shape: VectorShape, s: Schedule, passes: int, npu: NpuConfig) -> float:
    memory = npu.memory_of(0)
    height, width, channels = shape.extent
    steps = -(-height // s.tile_h) * -(-width // s.tile_w) * -(-channels // s.tile_oc)
    loaded = sum(
        _volume(in_tile(source, s, channels)) * source.border.item for source in shape.sources
    )
    out_tile = s.tile_h * s.tile_w * s.tile_oc
    moved = steps * loaded + height * width * channels * shape.target.item
    dram = moved / memory.bytes_per_cycle
    vector = height * width * channels * passes / npu.lanes
    controller = steps * CONTROLLER_CYCLES_PER_STEP
    exposed = (loaded + out_tile * shape.target.item) / memory.bytes_per_cycle
    exposed += memory.latency + out_tile * passes / npu.lanes
    if s.in_buffers == 1 and steps > 1:
        return dram + vector + controller + exposed
    return max(dram, vector, controller) + exposed


def _volume(tile: Tile) -> int:
    return tile[0] * tile[1] * tile[2]
