"""The schedule space of a convolution kernel: its knobs, what is legal, what has an effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from codegen.conv_plan import WEIGHT_LOOPS, ConvLayout, ConvShape
from codegen.conv_steps import LOOPS
from codegen.schedule import FIELD_MAX, MAX_PREFETCH, Schedule
from codegen.space import Knob
from runtime_sim.npu import NpuConfig

MAX_RESIDENT_PIECES = 200
MAX_ACC_TILES = 255
"""Semaphores count to 255: so many sums may wait for their requantisation."""
MAX_DEPTH_PARTS = 8
RING_MAX = 16383


@lru_cache(maxsize=1024)
def knobs(shape: ConvShape, npu: NpuConfig) -> tuple[Knob, ...]:
    """Return the knobs of a convolution kernel, each with its least effect first."""
    shape = shape.thinned()
    return (
        Knob("tile_h", tuple(equal_parts(shape.rows.out))),
        Knob("tile_w", tuple(halvings(shape.cols.out))),
        Knob("first_tile_h", (0, *(size for size in (1, 2, 4, 8) if size < shape.rows.out))),
        Knob("tile_oc", tuple(reversed(channel_tiles(shape, npu)))),
        Knob("tile_ic", (shape.group_in, *depth_tiles(shape, npu))),
        Knob("load_tiles", tuple(_powers(shape.rows.out))),
        Knob("load_ic", ("all", "tile") if has_slices(shape) else ("all",)),
        Knob("halo", ("reload", "keep") if shape.rows.overlaps else ("reload",)),
        Knob("order", tuple(LOOPS)),
        Knob("weights", ("resident", "stream")),
        Knob("micro_kernel", micro_kernels(shape, npu)),
        Knob("in_buffers", (1, 2, 3)),
        Knob("weight_buffers", (1, 2, 3)),
        Knob("out_buffers", (1, 2, 3)),
        Knob("acc_buffers", (1, 2, 3)),
        Knob("prefetch", (0, 1, 2, MAX_PREFETCH)),
        Knob("unroll", (1, 2, 4)),
    )


def has_slices(shape: ConvShape) -> bool:
    """Return whether an input tile may be loaded in slices of channels."""
    converts = shape.source.needs_convert(shape.a_type)
    return not (shape.depthwise or shape.groups > 1 or converts)


def micro_kernels(shape: ConvShape, npu: NpuConfig) -> tuple[str, ...]:
    """Return the micro-kernels that can compute a convolution."""
    if shape.depthwise:
        return ("implicit_gemm",)
    packed = ("packed_taps",) if shape.packs_taps(npu.array_rows) else ()
    return ("implicit_gemm", *packed, "pixel_stationary")


# --- tile sizes -----------------------------------------------------------------------------------


def depth_tiles(shape: ConvShape, npu: NpuConfig) -> list[int]:
    """Return input-channel tiles, largest first: multiples of the array's rows, and not all.

    Some cut the channels into equal parts, others are powers of two of those rows.
    """
    if shape.depthwise:
        return []
    blocks = equal_parts(-(-shape.group_in // npu.array_rows))
    parts = {part * npu.array_rows for part in _spread(blocks, MAX_DEPTH_PARTS)}
    tiles = parts | set(_depth_halvings(shape, npu))
    return sorted((tile for tile in tiles if tile < shape.group_in), reverse=True)


def _depth_halvings(shape: ConvShape, npu: NpuConfig) -> list[int]:
    """Return the three largest input-channel tiles that are powers of two of the array's rows."""
    tiles, tile = [], npu.array_rows
    while tile < shape.group_in:
        tiles.append(tile)
        tile *= 2
    return tiles[:-4:-1]


def channel_tiles(shape: ConvShape, npu: NpuConfig) -> list[int]:
    """Return output-channel tiles: all channels, and equal parts of whole array columns."""
    unit = npu.array_cols
    if shape.depthwise:
        unit = max(1, npu.array_cols // shape.mult) * shape.mult
    blocks = -(-shape.group_out // unit)
    tiles = {-(-blocks // parts) * unit for parts in range(2, blocks + 1)}
    return sorted({tile for tile in tiles if tile < shape.group_out} | {shape.group_out})


def halvings(size: int) -> list[int]:
    """Return a size and its halves down to 1, rounded up."""
    sizes = [size]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def equal_parts(size: int) -> list[int]:
    """Return the tile sizes that cut `size` into equal parts, give or take one, largest first."""
    return sorted({-(-size // parts) for parts in range(1, size + 1)}, reverse=True)


def _spread(sizes: list[int], limit: int) -> list[int]:
    """Return at most `limit` of the sizes: those that differ most."""
    step = max(1.0, (len(sizes) - 1) / (limit - 1))
    return [sizes[round(index * step)] for index in range(min(limit, len(sizes)))]


def _powers(size: int) -> list[int]:
    """Return the powers of two up to the first one that is not less than `size`."""
    return [1 << exponent for exponent in range((size - 1).bit_length() + 1)]


# --- legality -------------------------------------------------------------------------------------


def is_legal(shape: ConvShape, s: Schedule, npu: NpuConfig) -> bool:
    """Return whether the kernel fits SPM, ACC, the semaphores and the fields."""
    shape = shape.thinned()
    return (
        s.in_range and _has_order(shape, s) and _has_kernel(shape, s, npu) and _fits(shape, s, npu)
    )


def _has_order(shape: ConvShape, s: Schedule) -> bool:
    """Return whether the order can do with one piece of weights and one slice of input a step."""
    if s.order == "channel_outer":
        return shape.depthwise or s.tile_ic >= shape.group_in
    return s.order == "spatial_outer" or shape.groups == 1


def _has_kernel(shape: ConvShape, s: Schedule, npu: NpuConfig) -> bool:
    if shape.depthwise and s.tile_oc % shape.mult:
        return False
    if s.micro_kernel == "packed_taps" and s.tile_ic < shape.group_in:
        return False
    return s.micro_kernel in micro_kernels(shape, npu)


def _fits(shape: ConvShape, s: Schedule, npu: NpuConfig) -> bool:
    at = ConvLayout(shape, s)
    widest = max(shape.source.channels * shape.source.item, s.tile_oc * shape.target.item)
    if at.spm_bytes > npu.spm_bytes or widest > FIELD_MAX or at.ring_rows > RING_MAX:
        return False
    sums = s.acc_buffers * at.acc_tiles
    if sums > MAX_ACC_TILES or sums * at.acc_elements > npu.acc_elements:
        return False
    return s.weights == "stream" or at.channel_tiles * at.depth_tiles <= MAX_RESIDENT_PIECES


# --- canonical form -------------------------------------------------------------------------------


def canonical(shape: ConvShape, s: Schedule) -> Schedule:
    """Return the schedule of the same stream whose knobs without effect have fixed values."""
    shape = shape.thinned()
    if not 0 < s.first_tile_h < s.tile_h < shape.rows.out:
        s = replace(s, first_tile_h=0)
    if shape.depthwise or s.tile_ic >= shape.group_in:
        s = replace(s, tile_ic=shape.group_in)
    return Extents.of(shape, s).settled().canonical()


@dataclass(frozen=True, slots=True)
class Extents:
    """The iterations of the tile loops over the whole output."""

    shape: ConvShape
    s: Schedule
    at: ConvLayout
    counts: dict[str, int]

    @classmethod
    def of(cls, shape: ConvShape, s: Schedule) -> Extents:
        """Count the tiles of a schedule."""
        at = ConvLayout(shape, s)
        counts = {"col": at.col_tiles, "row": at.row_tiles}
        return cls(shape, s, at, counts | {"channel": at.channel_tiles, "depth": at.depth_tiles})

    def settled(self) -> Extents:
        """Return the extents with the first of all equal orders, and as few tiles a load."""
        order = self._order()
        s = replace(self.s, order=order, load_tiles=self._load_tiles(order))
        if s.halo == "keep" and not self._rolls(s):
            s = replace(s, halo="reload")
        if s.load_ic == "tile" and not self._slices(s):
            s = replace(s, load_ic="all")
        return self if s == self.s else Extents.of(self.shape, s)

    def _rolls(self, s: Schedule) -> bool:
        """Return whether input loads follow one another down overlapping rows, and nothing else."""
        loops = self.at.input_loops | {"row"}
        turning = [name for name in self._turning(s.order) if name in loops]
        if turning != ["row"] or self._turning(s.order)[0] != "row" or self.at.converts_in:
            return False
        return self.shape.rows.overlaps and s.load_tiles < self.counts["row"]

    def _slices(self, s: Schedule) -> bool:
        """Return whether a tile holds what several steps read, each another slice of channels."""
        if s.order != "spatial_outer" or s.load_tiles > 1 or s.halo == "keep":
            return False
        return self.at.depth_tiles > 1 and has_slices(self.shape)

    def canonical(self) -> Schedule:
        """Return the schedule with fixed values for knobs that have no effect in these loops."""
        s, steps = self.s, self.steps
        tiles = steps // self.at.depth_tiles
        uses, span = self.uses(self.at.input_loops)
        pieces, piece_span = self.uses(WEIGHT_LOOPS)
        resident = s.weights == "resident" or pieces == 1
        in_buffers = min(s.in_buffers, uses)
        weight_buffers = 1 if resident else min(s.weight_buffers, pieces)
        ahead = _ahead(s.prefetch, pieces, weight_buffers, piece_span)
        if resident and pieces > 1:
            ahead = min(s.prefetch, steps)
        inputs_ahead = _ahead(s.prefetch, uses, in_buffers, span)
        if s.load_ic == "tile" and uses == 1:
            inputs_ahead = min(s.prefetch, steps)
        return replace(
            s,
            weights="resident" if resident else "stream",
            in_buffers=in_buffers,
            weight_buffers=weight_buffers,
            out_buffers=min(s.out_buffers, tiles),
            acc_buffers=min(s.acc_buffers, tiles // self.at.acc_tiles),
            prefetch=max(ahead, inputs_ahead),
            unroll=s.unroll if s.unroll <= steps else 1,
        )

    @property
    def steps(self) -> int:
        """Return how many matrix commands there are."""
        return prod(self.counts.values())

    def _order(self) -> str:
        """Return the first order with the same loops that turn, and the same input tiles."""
        if self.at.slices_depth or self.at.slices_groups:
            return self.s.order
        mine = self._turning(self.s.order)
        return next(order for order in LOOPS if self._turning(order) == mine)

    def _turning(self, order: str) -> tuple[str, ...]:
        return tuple(name for name in LOOPS[order] if self.counts[name] > 1)

    def _load_tiles(self, order: str) -> int:
        """Return the row tiles that an input load serves: 1 where it does not follow the rows."""
        if self.s.load_tiles == 1:
            return 1
        loops = self.at.input_loops | {"row"}
        turning = [name for name in self._turning(order) if name in loops]
        if not turning or turning[-1] != "row":
            return 1
        return min(self.s.load_tiles, _powers(self.counts["row"])[-1])

    def uses(self, depends_on: frozenset[str]) -> tuple[int, int]:
        """Return how many tiles an operand has, and the fewest steps that one of them serves."""
        turning = self._turning(self.s.order)
        level = max((i + 1 for i, name in enumerate(turning) if name in depends_on), default=0)
        uses = prod(self.counts[name] for name in turning[:level])
        span = prod(self.counts[name] for name in turning[level:])
        together = self.s.load_tiles
        if together == 1 or "row" not in depends_on:
            return uses, span
        rows = self.counts["row"]
        blocks = -(-rows // together)
        return uses // rows * blocks, span * min(together, rows - (blocks - 1) * together)


def _ahead(prefetch: int, uses: int, buffers: int, span: int) -> int:
    """Return how many steps ahead loads are really issued."""
    return min(prefetch, 1) if uses == 1 else min(prefetch, (buffers - 1) * span)
