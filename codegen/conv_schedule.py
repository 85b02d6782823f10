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
from codegen.conv_plan import ConvShape
from codegen.conv_space import (
    canonical,
    channel_tiles,
    depth_halvings,
    equal_parts,
    halvings,
    is_legal,
)
from codegen.schedule import MAX_PREFETCH, Schedule
from runtime_sim.npu import NpuConfig

MAX_SPATIAL_TILES = 48
MAX_KEPT = 64


@lru_cache(maxsize=1024)
def schedules(shape: ConvShape, npu: NpuConfig) -> tuple[Schedule, ...]:
    """Return the legal candidate schedules, cheapest estimate first."""
    shape = shape.thinned()
    found = list(_candidates(shape, npu, 2)) or list(_candidates(shape, npu, 1))
    ranked = sorted(found, key=lambda s: estimate(shape, s, npu))
    return tuple(dict.fromkeys(canonical(shape, s) for s in ranked[:MAX_KEPT]))


def _candidates(shape: ConvShape, npu: NpuConfig, buffers: int) -> Iterator[Schedule]:
    """Yield legal schedules with as many buffers of everything, but ACC perhaps."""
    packed = shape.packs_taps(npu.array_rows)
    start = Schedule(
        tile_ic=shape.group_in, micro_kernel="packed_taps" if packed else "implicit_gemm",
        in_buffers=buffers, weight_buffers=buffers, out_buffers=buffers,
    )  # fmt: skip
    for tile_oc in channel_tiles(shape, npu):
        for tile_h, tile_w in _spatial_tiles(shape, npu, tile_oc):
            acc_buffers = min(buffers, npu.acc_elements // (tile_h * tile_w * tile_oc))
            base = replace(
                start, tile_h=tile_h, tile_w=tile_w, tile_oc=tile_oc, acc_buffers=acc_buffers
            )
            yield from _variants(shape, npu, base)


def _variants(shape: ConvShape, npu: NpuConfig, base: Schedule) -> Iterator[Schedule]:
    """Yield the legal orders and loads of a tile; weights stream where they cannot be resident."""
    for load_tiles in _load_tiles(shape, base, npu):
        s = replace(base, load_tiles=load_tiles)
        for order, prefetch in (("spatial_outer", 1), ("channel_outer", MAX_PREFETCH)):
            resident = replace(s, order=order, prefetch=prefetch)
            stream = replace(resident, weights="stream")
            yield from [s for s in (resident, stream) if is_legal(shape, s, npu)][:1]
    if shape.rows.overlaps and base.tile_w >= shape.cols.out:
        rolling = canonical(shape, replace(base, halo="keep"))
        yield from (
            s
            for s in (rolling, replace(rolling, weights="stream"))
            if s.halo == "keep" and is_legal(shape, s, npu)
        )
    if shape.taps * shape.group_in * npu.array_cols * 2 > npu.spm_bytes // 4:
        sliced = (replace(base, tile_ic=t, weights="stream") for t in depth_halvings(shape, npu))
        yield from (s for s in sliced if is_legal(shape, s, npu))


def _load_tiles(shape: ConvShape, s: Schedule, npu: NpuConfig) -> list[int]:
    """Return how many row tiles an input load may serve: one, or where windows overlap as many
    as fit.
    """
    if not shape.rows.overlaps or s.tile_h >= shape.rows.out:
        return [1]
    load_tiles = 1
    while load_tiles * s.tile_h < shape.rows.out:
        more = replace(s, load_tiles=2 * load_tiles, weights="stream", order="channel_outer")
        if not is_legal(shape, more, npu):
            break
        load_tiles *= 2
    return sorted({1, load_tiles})


def _spatial_tiles(shape: ConvShape, npu: NpuConfig, tile_oc: int) -> list[tuple[int, int]]:
    """Return (rows, columns) tiles that leave room for two ACC buffers, and single-buffer ones."""
    limit = max(1, npu.acc_elements // tile_oc)
    pairs = []
    for columns in halvings(shape.cols.out):
        heights = [h for h in equal_parts(shape.rows.out) if h * columns <= limit]
        pairs += [(h, columns) for h in heights]
        if len(pairs) >= MAX_SPATIAL_TILES:
            break
    return pairs[:MAX_SPATIAL_TILES]
