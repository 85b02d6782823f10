"""Which step of a convolution kernel works on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from codegen.borders import Box
from codegen.conv_plan import ConvLayout, ConvShape
from codegen.expr import Expr, as_expr, less, param, select
from codegen.kernel import FLAG_INPUT_RESIDENT, FLAG_OUTPUT_KEPT, FLAG_WEIGHTS_LOADED
from codegen.loop_nest import Indices, LoopNest
from codegen.schedule import Schedule
from codegen.tiles import RowTiles, Span, tile_span

LOOPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "spatial_outer": ("col", "row", "channel", "depth"),
        "channel_outer": ("channel", "col", "row", "depth"),
        "depth_outer": ("col", "row", "depth", "channel"),
    }
)
"""The tile loops of every order, outermost first: output columns, rows and channels, and the
input channels that are summed over."""

PARAMS_FULL, ZERO_POINTS_FULL = 8, 9
"""Semaphores of what is loaded once. Inputs, weights, ACC, outputs and the stage have the pairs
(0, 1), (2, 3), (4, 5), (6, 7) and (10, 11)."""

INPUT_RESIDENT = param("flags") & FLAG_INPUT_RESIDENT
WEIGHTS_LOADED = param("flags") & FLAG_WEIGHTS_LOADED
OUTPUT_KEPT = param("flags") & FLAG_OUTPUT_KEPT


def unless(flag: Expr, value: Expr | int) -> Expr:
    """Return `value` where a flag is not set, else 0."""
    return select(flag, 0, value)


@dataclass(frozen=True, slots=True)
class Step:
    """What one matrix command works on: its tile of outputs, and whether it starts their sums or
    completes them. `inner` is the input channels within the group.
    """

    t: Expr
    index: Indices
    out: Box
    inner: Span
    starts: Expr
    completes: Expr


class ConvSteps:
    """The loop nest of one (shape, schedule) pair, and what its steps work on."""

    def __init__(self, shape: ConvShape, schedule: Schedule) -> None:
        """Count the tiles."""
        self.shape, self.s = shape.thinned(), schedule
        self.at = ConvLayout(self.shape, schedule)
        self.rows = RowTiles(self.shape.rows.out, schedule.tile_h, schedule.first_tile_h)
        counts = {
            "col": as_expr(self.at.col_tiles),
            "row": self.rows.count,
            "channel": as_expr(self.at.channel_tiles),
            "depth": as_expr(self.at.depth_tiles),
        }
        loops = LOOPS[schedule.order]
        self.nest = LoopNest(tuple((name, counts[name]) for name in loops))

    def step(self, t: Expr) -> Step:
        """Decode step `t`."""
        index = self.nest.indices(t, len(self.nest.loops))
        depth = index["depth"]
        return Step(
            t, index, self.out_box(index), self.inner(depth),
            less(depth, 1), less(self.at.depth_tiles - 2, depth),
        )  # fmt: skip

    def out_box(self, index: Indices, row_tiles: int = 1) -> Box:
        """Return a tile of outputs; its row index counts blocks of `row_tiles` tiles."""
        return Box(
            self.rows.span(index["row"], row_tiles),
            tile_span(index["col"], self.s.tile_w, 0, self.shape.cols.out),
            self.channels(index["channel"]),
        )

    def inner(self, depth: Expr) -> Span:
        """Return the input channels, within their group, of depth tile `depth`."""
        return tile_span(depth, self.s.tile_ic, 0, self.shape.group_in)

    def channels(self, channel: Expr) -> Span:
        """Return the output channels of channel tile `channel`."""
        group, within = self._group_of(channel)
        inner = tile_span(within, self.s.tile_oc, 0, self.shape.group_out)
        return Span(group * self.shape.group_out + inner.start, inner.size)

    def group_start(self, channel: Expr) -> Expr:
        """Return the first input channel of the group that channel tile `channel` belongs to."""
        return self._group_of(channel)[0] * self.shape.group_in

    def _group_of(self, channel: Expr) -> tuple[Expr, Expr]:
        """Return (group, channel tile within the group)."""
        if self.shape.depthwise or self.shape.groups == 1:
            return as_expr(0), channel
        per_group = self.at.channel_tiles // self.shape.groups
        return channel // per_group, channel % per_group
