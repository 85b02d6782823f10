"""Shape, scratchpad layout and step order of a tiled convolution kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.borders import Border, Box
from codegen.expr import Expr, as_expr, maximum, param
from codegen.kernel import FLAG_INPUT_RESIDENT, FLAG_OUTPUT_KEPT, FLAG_WEIGHTS_LOADED
from codegen.schedule import Schedule
from codegen.tiles import Axis, Handshake, ScratchpadPlan, Span, row_span, row_tiles, tile_span
from runtime_sim.npu import NpuConfig

RECORD_BYTES = 12
PARAMS_FULL, ZERO_POINTS_FULL = 8, 9


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
    """Tile extents and scratchpad offsets of one (shape, schedule) pair."""

    def __init__(self, shape: ConvShape, s: Schedule) -> None:
        """Lay the buffers out; nothing is checked here."""
        self.shape, self.schedule = shape, s
        self.channel_tiles = -(-shape.group_out // s.tile_oc) * (
            1 if shape.depthwise else shape.groups
        )
        self.depth_tiles = 1 if shape.depthwise else -(-shape.group_in // s.tile_ic)
        self.col_tiles = -(-shape.cols.out // s.tile_w)
        in_c = s.tile_oc // shape.mult if shape.depthwise else shape.source.channels
        self.in_tile = (shape.rows.in_tile(s.tile_h), shape.cols.in_tile(s.tile_w), in_c)
        self.out_tile = (s.tile_h, s.tile_w, s.tile_oc)
        self.converts_in = shape.source.needs_convert(shape.a_type)
        self.converts_out = shape.target.needs_convert(shape.out_type)
        self.in_bytes = _volume(self.in_tile)
        self.acc_elements = _volume(self.out_tile)
        ic = shape.taps if shape.depthwise else s.tile_ic * shape.taps
        self.weight_tile = ic * s.tile_oc
        plan = ScratchpadPlan()
        self.params = plan.take("params", RECORD_BYTES * shape.target.channels)
        zero_points = shape.target.channels if shape.vector_zero_points else 0
        self.zero_points = plan.take("zero_points", zero_points)
        self.weights = plan.take("weights", self._weight_bytes())
        self.input = plan.take("input", s.in_buffers * self.in_bytes)
        self.stage_in = plan.take("stage_in", self._stage_in_bytes())
        self.output = plan.take(
            "output", (1 if self.converts_out else s.out_buffers) * self.out_bytes
        )
        stage_out = s.out_buffers * self.out_bytes * shape.target.item if self.converts_out else 0
        self.stage_out = plan.take("stage_out", stage_out)
        self.spm_bytes = plan.used

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


@dataclass(frozen=True, slots=True)
class Step:
    """What step t works on."""

    t: Expr
    spatial: Expr
    channel: Expr
    rows: Span
    cols: Span
    chans: Span


class ConvPlan:
    """Step counts, handshakes and step decoding of one (shape, schedule) pair."""

    def __init__(self, shape: ConvShape, schedule: Schedule, npu: NpuConfig) -> None:
        """Derive the step counts and handshakes."""
        shape = shape.thinned()
        self.shape, self.s, self.npu = shape, schedule, npu
        self.at = ConvLayout(shape, schedule)
        self.spatial_tiles = row_tiles(schedule.tile_h, shape.rows.out) * self.at.col_tiles
        self.steps = self.spatial_tiles * self.at.channel_tiles
        self.channel_outer = schedule.order == "channel_outer"
        self.loads_each_step = shape.depthwise or self.channel_outer
        loads = self.steps if self.loads_each_step else self.spatial_tiles
        weight_loads: Expr = self.steps * self.at.depth_tiles
        if self.channel_outer:
            weight_loads = as_expr(self.at.channel_tiles)
        self.inputs = Handshake(0, 1, schedule.in_buffers, loads)
        self.weights = Handshake(2, 3, schedule.weight_buffers, weight_loads)
        self.acc = Handshake(4, 5, schedule.acc_buffers, self.steps)
        self.outputs = Handshake(6, 7, schedule.out_buffers, self.steps)
        self.stage = Handshake(10, 11, 2, loads)
        self.resident = param("flags") & FLAG_INPUT_RESIDENT
        self.loaded = param("flags") & FLAG_WEIGHTS_LOADED
        self.kept = param("flags") & FLAG_OUTPUT_KEPT

    # --- which step works on what -------------------------------------------------------------

    def step(self, t: Expr) -> Step:
        """Decode step `t`."""
        if self.channel_outer:
            tiles = maximum(self.spatial_tiles, 1)
            channel, spatial = t // tiles, t % tiles
        else:
            channel, spatial = t % self.at.channel_tiles, t // self.at.channel_tiles
        if self.at.channel_tiles == 1:
            channel, spatial = as_expr(0), t
        columns = self.at.col_tiles
        return Step(
            t, spatial, channel,
            row_span(spatial // columns, self.s.tile_h, self.shape.rows.out),
            tile_span(spatial % columns, self.s.tile_w, 0, self.shape.cols.out),
            self.channels(channel),
        )  # fmt: skip

    def channels(self, channel: Expr) -> Span:
        """Return the output channels of channel tile `channel`."""
        group, within = self.group_of(channel)
        inner = tile_span(within, self.s.tile_oc, 0, self.shape.group_out)
        return Span(group * self.shape.group_out + inner.start, inner.size)

    def group_of(self, channel: Expr) -> tuple[Expr, Expr]:
        """Return (group, channel tile within the group)."""
        if self.shape.depthwise or self.shape.groups == 1:
            return as_expr(0), channel
        per_group = self.at.channel_tiles // self.shape.groups
        return channel // per_group, channel % per_group

    def input_use(self, step: Step) -> Expr:
        """Return the running number of the input tile that a step reads."""
        return step.t if self.loads_each_step else step.spatial

    def input_box(self, step: Step) -> tuple[Box, Expr, Expr]:
        """Return the input tile of a step, and the padding above and left of it."""
        rows, above = self.shape.rows.window(step.rows)
        cols, left = self.shape.cols.window(step.cols)
        if self.shape.depthwise:
            mult = self.shape.mult
            chans = Span(step.chans.start // mult, step.chans.size // mult)
        else:
            chans = Span(as_expr(0), as_expr(self.shape.source.channels))
        return Box(rows, cols, chans), above, left
