"""Legal schedules of a convolution kernel, ordered by a documented cost estimate.

The estimate of a schedule is the largest of four totals, plus the exposed first load and last
store: array cycles (every command's passes, fill and drain), vector passes, DRAM cycles (bytes in
whole bursts, halos included) and controller cycles. It never runs the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from codegen.conv_estimate import estimate
from codegen.conv_plan import ConvLayout, ConvShape
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig

MAX_RESIDENT_PIECES = 200
MAX_SPATIAL_TILES = 48
FIELD_MAX = 65535


@lru_cache(maxsize=1024)
def schedules(shape: ConvShape, npu: NpuConfig) -> tuple[Schedule, ...]:
    """Return the legal candidate schedules, cheapest estimate first."""
    shape = shape.thinned()
    legal = [s for s in dict.fromkeys(_candidates(shape, npu)) if is_legal(shape, s, npu)]
    return tuple(sorted(legal, key=lambda s: estimate(shape, s, npu)))


def is_legal(shape: ConvShape, s: Schedule, npu: NpuConfig) -> bool:
    """Return whether the kernel fits SPM, ACC, the semaphores and the fields."""
    tiles = s.tile_h, s.tile_w, s.tile_oc, s.tile_ic
    buffers = s.in_buffers, s.weight_buffers, s.out_buffers, s.acc_buffers
    if not 1 <= min(*tiles, *buffers) <= max(*tiles, *buffers) <= FIELD_MAX:
        return False
    shape = shape.thinned()
    layout = ConvLayout(shape, s)
    widest = max(shape.source.channels * shape.source.item, s.tile_oc * shape.target.item)
    if layout.spm_bytes > npu.spm_bytes or widest > FIELD_MAX:
        return False
    if s.acc_buffers * layout.acc_elements > npu.acc_elements:
        return False
    if shape.depthwise and (s.tile_oc % shape.mult or s.micro_kernel != "implicit_gemm"):
        return False
    if s.micro_kernel == "packed_taps" and (
        not shape.packs_taps(npu.array_rows) or layout.depth_tiles > 1
    ):
        return False
    if s.weights == "resident":
        return layout.channel_tiles * layout.depth_tiles <= MAX_RESIDENT_PIECES
    return s.order == "spatial_outer" or layout.depth_tiles == 1


def _candidates(shape: ConvShape, npu: NpuConfig) -> Iterator[Schedule]:
    for tile_oc in channel_tiles(shape, npu):
        for tile_h, tile_w in _spatial_tiles(shape, npu, tile_oc):
            base = Schedule(tile_h=tile_h, tile_w=tile_w, tile_oc=tile_oc, tile_ic=shape.group_in)
            yield from _variants(shape, npu, base)


def _variants(shape: ConvShape, npu: NpuConfig, base: Schedule) -> Iterator[Schedule]:
    packed = shape.packs_taps(npu.array_rows)
    base = replace(base, micro_kernel="packed_taps" if packed else "implicit_gemm")
    for buffers, acc_buffers in ((2, 2), (2, 1), (1, 1)):
        b = replace(base, in_buffers=buffers, out_buffers=buffers, acc_buffers=acc_buffers)
        yield b
        yield replace(b, weights="stream", weight_buffers=buffers)
        yield replace(b, weights="stream", weight_buffers=buffers, order="channel_outer")
    if shape.depthwise or packed:
        return
    for tile_ic in depth_tiles(shape, npu):
        yield replace(base, tile_ic=tile_ic, weights="stream")
        yield replace(
            base, tile_ic=tile_ic, weights="stream",
            in_buffers=1, out_buffers=1, acc_buffers=1, weight_buffers=1,
        )  # fmt: skip


def depth_tiles(shape: ConvShape, npu: NpuConfig) -> list[int]:
    """Return input-channel tiles, multiples of the array's rows, for kernels too deep to hold."""
    if shape.taps * shape.group_in * npu.array_cols * 2 <= npu.spm_bytes // 4:
        return []
    tiles, tile = [], npu.array_rows
    while tile < shape.group_in:
        tiles.append(tile)
        tile *= 2
    return tiles


def channel_tiles(shape: ConvShape, npu: NpuConfig) -> list[int]:
    """Return output-channel tiles: all channels, and equal parts of whole array columns."""
    unit = npu.array_cols
    if shape.depthwise:
        unit = max(1, npu.array_cols // shape.mult) * shape.mult
    blocks = -(-shape.group_out // unit)
    tiles = {-(-blocks // parts) * unit for parts in range(2, blocks + 1)}
    return sorted({tile for tile in tiles if tile < shape.group_out} | {shape.group_out})


def _spatial_tiles(shape: ConvShape, npu: NpuConfig, tile_oc: int) -> list[tuple[int, int]]:
    """Return (rows, columns) tiles that leave room for two ACC buffers, and single-buffer ones."""
    limit = max(1, npu.acc_elements // tile_oc)
    pairs = []
    for columns in halvings(shape.cols.out):
        heights = {h for h in divisor_like(shape.rows.out) if h * columns <= limit}
        pairs += [(h, columns) for h in sorted(heights, reverse=True)]
        if len(pairs) >= MAX_SPATIAL_TILES:
            break
    return pairs[:MAX_SPATIAL_TILES]


def halvings(size: int) -> list[int]:
    sizes = [size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def divisor_like(size: int) -> set[int]:
    """Return tile sizes that cut `size` into equal parts, give or take one."""
    return {-(-size // parts) for parts in range(1, size + 1)}
