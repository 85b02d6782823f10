"""Legal schedules of a product of two activations, ordered by estimate.

A step is one MATMUL. The estimate takes the mean step's array, DMA (whole bursts, and the latency
that short transfers cannot hide), vector and controller cycles; where buffers are doubled the
slowest of the four decides, and the first load and the last result are exposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from codegen.matmul_kernel import MatmulLayout, MatmulShape, Matrix
from codegen.schedule import Schedule
from codegen.space import Knob
from codegen.transfer_cost import box_cycles, transfer_cycles
from runtime_sim.npu import NpuConfig

CONTROLLER_CYCLES = {"LOAD": 35, "MATMUL": 45, "REQUANT": 40, "STORE": 30}
"""Mean controller cycles of a command in a rolled loop."""
_ORDERS = ("spatial_outer", "channel_outer")
_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024)


@lru_cache(maxsize=1024)
def schedules(shape: MatmulShape, npu: NpuConfig) -> tuple[Schedule, ...]:
    """Return the legal candidate schedules, cheapest estimate first."""
    legal = [s for s in _candidates(shape, npu) if is_legal(shape, s, npu)]
    return tuple(sorted(legal, key=lambda s: estimate(shape, s, npu)))


def knobs(shape: MatmulShape, npu: NpuConfig) -> tuple[Knob, ...]:
    """Return the knobs of a product."""
    m, k, n = shape.extent
    return (
        Knob("tile_h", (1,)),
        Knob("tile_w", tuple(_parts(m, 1))),
        Knob("tile_oc", tuple(_parts(n, npu.array_cols))),
        Knob("tile_ic", tuple(_parts(k, npu.array_rows))),
        Knob("order", _ORDERS),
        Knob("weights", ("stream",)),
        Knob("in_buffers", (1, 2, 3)),
        Knob("out_buffers", (1, 2, 3)),
        Knob("acc_buffers", (1, 2)),
        Knob("unroll", (1, 2, 4)),
    )


def canonical(shape: MatmulShape, s: Schedule) -> Schedule:
    """Return the schedule of the same stream with no more buffers and copies than tiles."""
    at = MatmulLayout(shape, s)
    tiles = shape.target.height * at.m_tiles * at.n_tiles
    steps = tiles * at.k_tiles
    return Schedule(
        tile_h=s.tile_h, tile_w=s.tile_w, tile_oc=s.tile_oc, tile_ic=s.tile_ic,
        order=s.order if min(at.m_tiles, at.n_tiles) > 1 else "spatial_outer",
        weights="stream",
        in_buffers=min(s.in_buffers, steps),
        out_buffers=min(s.out_buffers, tiles),
        acc_buffers=min(s.acc_buffers, tiles),
        unroll=s.unroll if s.unroll <= steps else 1,
    )  # fmt: skip


def is_legal(shape: MatmulShape, s: Schedule, npu: NpuConfig) -> bool:
    """Return whether the kernel fits SPM, ACC and the fields."""
    if not s.in_range or s.tile_h != 1 or s.order not in _ORDERS:
        return False
    if any(tile > size for tile, size in zip((s.tile_w, s.tile_ic, s.tile_oc), shape.extent)):
        return False
    if s.acc_buffers * s.tile_w * s.tile_oc > npu.acc_elements:
        return False
    return MatmulLayout(shape, s).spm_bytes <= npu.spm_bytes


def _candidates(shape: MatmulShape, npu: NpuConfig) -> Iterator[Schedule]:
    m, k, n = shape.extent
    for tile_m in _parts(m, 1):
        for tile_n in _parts(n, npu.array_cols):
            for tile_k in _parts(k, npu.array_rows):
                base = Schedule(tile_w=tile_m, tile_oc=tile_n, tile_ic=tile_k, weights="stream")
                for order in _ORDERS:
                    for buffers, acc in ((2, 2), (2, 1), (1, 1)):
                        yield replace(
                            base, order=order, in_buffers=buffers, out_buffers=buffers,
                            acc_buffers=acc,
                        )  # fmt: skip


def _parts(size: int, unit: int) -> list[int]:
    """Return tile sizes that cut `size` into equal parts of whole units, largest first."""
    tiles = {min(size, math.ceil(size / parts / unit) * unit) for parts in _PARTS}
    return sorted(tiles, reverse=True)


def estimate(shape: MatmulShape, s: Schedule, npu: NpuConfig) -> float:
    """Return the estimated cycles of a schedule on one image."""
    at, memory, (m, k, n) = MatmulLayout(shape, s), npu.memory_of(0), shape.extent
    tiles = shape.target.height * at.m_tiles * at.n_tiles
    steps = tiles * at.k_tiles
    rows, depth, columns = m / at.m_tiles, k / at.k_tiles, n / at.n_tiles
    a = _tile_cycles(shape.a, rows, depth, npu)
    b = _tile_cycles(shape.b, columns, depth, npu)
    loads = [1 / (period or steps) for period in (at.a_period, at.b_period)]
    store = box_cycles(shape.target, (1, rows, columns), memory) / at.k_tiles
    dma = loads[0] * a + loads[1] * b + store
    array = _array_cycles(shape, s, npu)
    vector = rows * columns / npu.lanes / at.k_tiles
    cost = CONTROLLER_CYCLES
    controller = sum(loads) * cost["LOAD"] + cost["MATMUL"]
    controller += (cost["REQUANT"] + cost["STORE"]) / at.k_tiles
    if s.in_buffers == 1:
        step = max(array + vector + dma, controller)
    elif s.acc_buffers == 1:
        step = max(array + vector, dma, controller)
    else:
        step = max(array, vector, dma, controller)
    params = transfer_cycles(at.params_bytes, memory)
    ends = a + b + params + array + (vector + store) * at.k_tiles + 2 * memory.latency
    return ends + (steps - 1) * step


def _tile_cycles(matrix: Matrix, side: float, depth: float, npu: NpuConfig) -> float:
    extent = (1.0, depth, side) if matrix.k_first else (1.0, side, depth)
    return box_cycles(matrix.border, extent, npu.memory_of(0))


def _array_cycles(shape: MatmulShape, s: Schedule, npu: NpuConfig) -> float:
    """Return the array's cycles of a step, averaged over full and edge tiles."""
    m, k, n = shape.extent
    pixels = _mean(m, s.tile_w, lambda rows: max(rows, npu.array_rows))
    passes = _mean(k, s.tile_ic, lambda depth: math.ceil(depth / npu.array_rows))
    blocks = _mean(n, s.tile_oc, lambda columns: math.ceil(columns / npu.array_cols))
    return pixels * passes * blocks + npu.array_rows + npu.array_cols - 2


def _mean(size: int, tile: int, cost: Callable[[int], int]) -> float:
    """Return the mean cost of the tiles of an axis, the last of which may be shorter."""
    full, rest = divmod(size, tile)
    total = full * cost(tile) + (cost(rest) if rest else 0)
    return total / (full + (rest > 0))
