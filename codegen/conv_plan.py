"""Shape and scratchpad layout of a tiled convolution kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.borders import Border
from codegen.schedule import Schedule
from codegen.tiles import Axis, ScratchpadPlan

RECORD_BYTES = 12
WEIGHT_LOOPS = frozenset({"channel", "depth"})
"""The tile loops that change the weights."""


@dataclass(frozen=True, slots=True)
class ConvShape:
    """All that the code of a convolution kernel depends on, but the schedule.

    `source` and `target` are the tensors in DRAM; `a_type` and `out_type` what the engines see.
    Depthwise convolutions have `mult` > 0 output channels per input channel.
    """

    source: Border
    target: Border
    rows: Axis
    cols: Axis
    groups: int
    mult: int
    a_type: str
    w_type: str
    out_type: str
    vector_zero_points: bool
    rounding: int

    def thinned(self) -> ConvShape:
        """Return the shape with strided 1x1 axes read at their stride, so that nothing else loads.

        Planes are read whole along a row: their columns cannot be skipped.
        """
        rows, cols = self.rows.thinned(), self.cols
        if not self.source.planar:
            cols = cols.thinned()
        step = (self.rows.stride // rows.stride, self.cols.stride // cols.stride)
        if step == (1, 1):
            return self
        return replace(self, rows=rows, cols=cols, source=replace(self.source, step=step))

    @property
    def depthwise(self) -> bool:
        """Return whether the depthwise instruction is used."""
        return self.mult > 0

    @property
    def taps(self) -> int:
        """Return the kernel's taps."""
        return self.rows.kernel * self.cols.kernel

    @property
    def group_in(self) -> int:
        """Return input channels of a group."""
        return self.source.channels // self.groups

    @property
    def group_out(self) -> int:
        """Return output channels of a group; a depthwise convolution counts as one group."""
        return self.target.channels if self.depthwise else self.target.channels // self.groups

    def packs_taps(self, array_rows: int) -> bool:
        """Return whether several taps of a channel fit the array's rows at once."""
        return not self.depthwise and self.taps > 1 and self.group_in * 2 <= array_rows

    @property
    def depth(self) -> int:
        """Return the weights that one output channel has."""
        return self.taps if self.depthwise else self.taps * self.group_in


class ConvLayout:
    """Tile counts, extents and scratchpad offsets of one (shape, schedule) pair."""

    def __init__(self, shape: ConvShape, s: Schedule) -> None:
        """Lay the buffers out; nothing is checked here."""
        self.shape, self.schedule = shape, s
        self.channel_tiles = -(-shape.group_out // s.tile_oc) * (
            1 if shape.depthwise else shape.groups
        )
        self.depth_tiles = 1 if shape.depthwise else -(-shape.group_in // s.tile_ic)
        missing = s.tile_h - s.first_tile_h if s.first_tile_h else 0
        self.row_tiles = max(1, -(-(shape.rows.out + missing) // s.tile_h))
        self.col_tiles = -(-shape.cols.out // s.tile_w)
        rows = min(s.load_tiles * s.tile_h, shape.rows.out)
        self.in_tile = (shape.rows.in_tile(rows), shape.cols.in_tile(s.tile_w), self._in_channels())
        self.out_tile = (s.tile_h, s.tile_w, s.tile_oc)
        self.converts_in = shape.source.needs_convert(shape.a_type)
        self.converts_out = shape.target.needs_convert(shape.out_type)
        self.in_bytes = _volume(self.in_tile)
        self.acc_elements = _volume(self.out_tile)
        self.acc_tiles = self.channel_tiles if self.slices_depth else 1
        ic = shape.taps if shape.depthwise else s.tile_ic * shape.taps
        self.weight_tile = ic * s.tile_oc
        plan = ScratchpadPlan()
        self.params = plan.take("params", RECORD_BYTES * shape.target.channels)
        zero_points = shape.target.channels if shape.vector_zero_points else 0
        self.zero_points = plan.take("zero_points", zero_points)
        self.weights = plan.take("weights", self._weight_bytes())
        self.advance = rows * shape.rows.stride
        self.ring_rows = self._ring_rows() if s.halo == "keep" else 0
        tiles = s.in_buffers * self.in_tile[0]
        self.input = plan.take(
            "input", self.in_bytes // self.in_tile[0] * (self.ring_rows or tiles)
        )
        self.stage_in = plan.take("stage_in", self._stage_in_bytes())
        self.output = plan.take(
            "output", (1 if self.converts_out else s.out_buffers) * self.out_bytes
        )
        stage_out = s.out_buffers * self.out_bytes * shape.target.item if self.converts_out else 0
        self.stage_out = plan.take("stage_out", stage_out)
        self.spm_bytes = plan.used

    @property
    def slices_depth(self) -> bool:
        """Return whether all channel tiles pass over a slice of input channels before the next.

        Input tiles then hold a slice, and ACC holds a sum for every channel tile.
        """
        return self.schedule.order == "depth_outer" and self.depth_tiles > 1

    @property
    def first_completed(self) -> int:
        """Return the first step that completes its sums."""
        return (self.depth_tiles - 1) * self.acc_tiles

    @property
    def slices_groups(self) -> bool:
        """Return whether input tiles hold the channels of one group out of several."""
        return self.schedule.order == "channel_outer" and self.shape.groups > 1

    @property
    def input_loops(self) -> frozenset[str]:
        """Return the tile loops that change the input tile: not the rows, where it has them all."""
        row = {"row"} if self.schedule.load_tiles < self.row_tiles else set()
        channel = {"channel"} if self.shape.depthwise or self.slices_groups else set()
        return frozenset({"col"} | row | channel | ({"depth"} if self.slices_depth else set()))

    def _ring_rows(self) -> int:
        """Return the rows of a ring that holds a window and the loads ahead of it."""
        rows = self.in_tile[0] + (self.schedule.in_buffers - 1) * self.advance
        return -(-rows // self.advance) * self.advance

    def _in_channels(self) -> int:
        if self.shape.depthwise:
            return self.schedule.tile_oc // self.shape.mult
        if self.slices_depth:
            return self.schedule.tile_ic
        return self.shape.group_in if self.slices_groups else self.shape.source.channels

    @property
    def out_bytes(self) -> int:
        """Return the bytes of an integer output tile."""
        return self.acc_elements

    def _weight_bytes(self) -> int:
        if self.schedule.weights == "resident":
            return self.shape.depth * self.shape.target.channels
        return self.schedule.weight_buffers * self.weight_tile

    def _stage_in_bytes(self) -> int:
        return 2 * self.in_bytes * self.shape.source.item if self.converts_in else 0


def _volume(extent: tuple[int, int, int]) -> int:
    return extent[0] * extent[1] * extent[2]
