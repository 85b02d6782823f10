"""Legal schedules of a convolution kernel, ordered by a documented cost estimate.

The estimate of a schedule is the largest of four totals, plus the exposed first load and last
store: array cycles (every command's passes, fill and drain), vector passes, DRAM cycles (bytes in
whole bursts, halos included) and controller cycles. It never runs the timeline.

Tiles are looked at in the order of what the array or the memory must at least take. The first one
whose least is above the best schedule so far ends the search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from codegen.conv_estimate import estimate, least_cycles
from codegen.conv_plan import ConvShape
from codegen.conv_space import (
    canonical,
    channel_tiles,
    depth_tiles,
    equal_parts,
    halvings,
    has_slices,
    is_legal,
    micro_kernels,
)
from codegen.schedule import MAX_PREFETCH, Schedule
from runtime_sim.npu import NpuConfig

MAX_SPATIAL_TILES = 48
MAX_KEPT = 64


@lru_cache(maxsize=1024)
def schedules(shape: ConvShape, npu: NpuConfig) -> tuple[Schedule, ...]:
    """Return the legal candidate schedules, cheapest estimate first."""
    shape = shape.thinned()
    ranked = _ranked(shape, npu, 2) or _ranked(shape, npu, 1)
    return tuple(dict.fromkeys(canonical(shape, s) for s in ranked[:MAX_KEPT]))


def _ranked(shape: ConvShape, npu: NpuConfig, buffers: int) -> list[Schedule]:
    """Return legal schedules with as many buffers of everything, but ACC perhaps, best first."""
    best, found = math.inf, []
    bases = [(least_cycles(shape, s, npu), s) for s in _bases(shape, npu, buffers)]
    for least, base in sorted(bases, key=lambda pair: pair[0]):
        if least > best:
            break
        for s in _variants(shape, npu, base):
            if s.tile_ic < shape.group_in and least_cycles(shape, s, npu) > best:
                continue
            cycles = estimate(shape, s, npu)
            best = min(best, cycles)
            found.append((cycles, s))
    return [s for _, s in sorted(found, key=lambda pair: pair[0])]


def _bases(shape: ConvShape, npu: NpuConfig, buffers: int) -> Iterator[Schedule]:
    """Yield micro-kernels and output tiles whose sums fit ACC, with all input channels."""
    kernels = micro_kernels(shape, npu)
    if "packed_taps" in kernels:
        kernels = kernels[1:]  # packing is better than not
    for tile_oc in channel_tiles(shape, npu):
        for tile_h, tile_w in _spatial_tiles(shape, npu, tile_oc):
            base = Schedule(
                tile_h=tile_h, tile_w=tile_w, tile_oc=tile_oc, tile_ic=shape.group_in,
                in_buffers=buffers, weight_buffers=buffers, out_buffers=buffers,
                acc_buffers=min(buffers, npu.acc_elements // (tile_h * tile_w * tile_oc)),
            )  # fmt: skip
            yield from (replace(base, micro_kernel=name) for name in kernels)


def _variants(shape: ConvShape, npu: NpuConfig, base: Schedule) -> Iterator[Schedule]:
    """Yield the legal orders and loads of a tile; weights stream where they cannot be resident."""
    for s in (*_orders(shape, npu, base), *_slices(shape, npu, base)):
        either = (s, replace(s, weights="stream"))
        yield from [s for s in either if is_legal(shape, s, npu)][:1]
    if shape.rows.overlaps and base.tile_w >= shape.cols.out:
        rolling = canonical(shape, replace(base, halo="keep"))
        either = (rolling, replace(rolling, weights="stream"))
        yield from (s for s in either if s.halo == "keep" and is_legal(shape, s, npu))


def _orders(shape: ConvShape, npu: NpuConfig, base: Schedule) -> Iterator[Schedule]:
    """Yield the orders of a tile; those in which joined loads would have no effect without them."""
    for load_tiles in _load_tiles(shape, base, npu):
        for order, prefetch in (("spatial_outer", 1), ("channel_outer", MAX_PREFETCH)):
            s = replace(base, load_tiles=load_tiles, order=order, prefetch=prefetch)
            if load_tiles == 1 or canonical(shape, s).load_tiles == load_tiles:
                yield s


def _slices(shape: ConvShape, npu: NpuConfig, base: Schedule) -> Iterator[Schedule]:
    """Yield schedules that sum over slices of the input channels, loaded apart where possible."""
    if base.micro_kernel == "packed_taps":
        return
    for tile_ic in depth_tiles(shape, npu):
        s = replace(base, tile_ic=tile_ic, prefetch=2)
        if has_slices(shape):
            yield from (replace(s, order="depth_outer"), replace(s, load_ic="tile"))
        else:
            yield s


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
