"""The input tiles of a convolution kernel: loads, border conversions, and where steps read them."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.borders import (
    Border,
    Box,
    border_rounding,
    convert,
    dma,
    identity_scalars,
    quantize_scalars,
)
from codegen.conv_steps import INPUT_RESIDENT, ConvSteps, Step, unless
from codegen.expr import Expr, ExprLike, as_expr, maximum, param, select
from codegen.kernel import Guard, Instr, Node, spm_fields
from codegen.loop_nest import Feed
from codegen.tiles import Handshake, Span


class InputTiles:
    """Input tiles pass through rotating buffers, or lie in a ring of rows that the caller fills."""

    def __init__(self, steps: ConvSteps) -> None:
        """Derive which steps share a tile."""
        self.steps, self.shape, self.s, self.at = steps, steps.shape, steps.s, steps.at
        loops = self.at.input_loops
        together = self.s.load_tiles if "row" in loops else 1
        self.feed = Feed.of(steps.nest, loops, self.s.prefetch, self.s.in_buffers, together)
        self.shake = Handshake(0, 1, self.s.in_buffers, self.feed.total)
        self.stage = Handshake(10, 11, 2, self.feed.total)

    # --- loads ----------------------------------------------------------------------------------

    def load(self, t: Expr) -> tuple[Node, ...]:
        """Return the load of step `t`'s tile, where the step is the first to read it."""
        wanted = unless(INPUT_RESIDENT, self.feed.first(t))
        return (Guard(wanted, self._load(self.feed.number(t))),)

    def _load(self, use: Expr) -> tuple[Node, ...]:
        box, _, _ = self._window(self._loaded(use))
        if self.at.converts_in:
            return self._stage_and_convert(box, use)
        command = dma(
            "LOAD", self.shape.source, box, param("in0"), self._buffer(use), self.at.in_tile,
            wait=self.shake.acquire(use), post=self.shake.filled,
        )  # fmt: skip
        return (command,)

    def _stage_and_convert(self, box: Box, use: Expr) -> tuple[Instr, ...]:
        source, tile = self.shape.source, self.at.in_tile
        staged = self.at.in_bytes * source.item
        stage = param("spm") + self.at.stage_in + self.stage.slot(use) * staged
        target = Border(self.shape.a_type, "NHWC", source.height, source.width, source.channels)
        return (
            dma(
                "LOAD", source, box, param("in0"), stage, tile,
                wait=self.stage.acquire(use), post=self.stage.filled,
            ),
            convert(
                box, (source, stage, tile), (target, self._buffer(use), tile),
                self._convert_scalars(), border_rounding(source.dtype),
                wait=self.shake.acquire(use) + self.stage.filled,
                post=self.stage.release(use) + self.shake.filled,
            ),
        )  # fmt: skip

    def _convert_scalars(self) -> Mapping[str, ExprLike]:
        if self.shape.source.dtype == "float32":
            return quantize_scalars(self.shape.a_type, param("in_scale"), param("in_zp"))
        return identity_scalars(self.shape.a_type)

    def _buffer(self, use: Expr) -> Expr:
        return param("spm") + self.at.input + self.shake.slot(use) * self.at.in_bytes

    # --- which part of the input ----------------------------------------------------------------

    def _loaded(self, use: Expr) -> Box:
        """Return the outputs that tile `use` serves, with the input channels that it holds."""
        index = self.feed.indices(use)
        out = self.steps.out_box(index, self.s.load_tiles)
        if self.shape.depthwise:
            return Box(out.rows, out.cols, self._depthwise_channels(out.chans))
        chans = Span(as_expr(0), as_expr(self.shape.source.channels))
        if self.at.slices_depth:
            chans = self.steps.inner(index["depth"])
        elif self.at.slices_groups:
            start = self.steps.group_start(index["channel"])
            chans = Span(start, as_expr(self.shape.group_in))
        return Box(out.rows, out.cols, chans)

    def _read(self, step: Step) -> Box:
        """Return the outputs of a step, with the input channels that it reads."""
        if self.shape.depthwise:
            chans = self._depthwise_channels(step.out.chans)
        else:
            start = self.steps.group_start(step.index["channel"])
            chans = Span(start + step.inner.start, step.inner.size)
        return Box(step.out.rows, step.out.cols, chans)

    def _depthwise_channels(self, chans: Span) -> Span:
        return Span(chans.start // self.shape.mult, chans.size // self.shape.mult)

    def _window(self, out: Box) -> tuple[Box, Expr, Expr]:
        """Return the input box of a box of outputs, and the padding above and left of it."""
        rows, above = self.shape.rows.window(out.rows)
        cols, left = self.shape.cols.window(out.cols)
        return Box(rows, cols, out.chans), above, left

    # --- what a step reads ----------------------------------------------------------------------

    def operand(self, step: Step) -> dict[str, ExprLike]:
        """Return the fields of the step's activations: address, extents, padding and channels."""
        box, above, left = self._window(self._read(step))
        fields: dict[str, ExprLike] = {
            "in_h": box.rows.size, "in_w": box.cols.size, "pad_top": above, "pad_left": left,
            "c" if self.shape.depthwise else "ic": box.chans.size,
        }  # fmt: skip
        return fields | self._address(step, box)

    def _address(self, step: Step, box: Box) -> dict[str, ExprLike]:
        """Return the operand's place: in a rotating buffer, or in the resident ring."""
        _, tile_w, tile_c = self.at.in_tile
        source = self.shape.source
        ring = param("in_ring") // source.step[0]
        pixel, row = source.channels * source.step[1], source.width * source.channels
        ringed = param("in_spm") + (box.cols.start * pixel + box.chans.start)
        address, ring_rows, ring_start = self._place(step, box)
        return spm_fields(
            "in",
            select(INPUT_RESIDENT, ringed, address),
            select(INPUT_RESIDENT, row * source.step[0], tile_w * tile_c),
            select(INPUT_RESIDENT, pixel, tile_c),
            select(INPUT_RESIDENT, ring, ring_rows),
            select(INPUT_RESIDENT, box.rows.start % maximum(ring, 1), ring_start),
        )

    def _place(self, step: Step, box: Box) -> tuple[Expr, ExprLike, ExprLike]:
        """Return the address of what a step reads, the rows of its ring and where it starts."""
        _, tile_w, tile_c = self.at.in_tile
        use = self.feed.number(step.t)
        offset = as_expr(0) if tile_c < self.shape.source.channels else box.chans.start
        if self.s.load_tiles > 1:
            loaded, _, _ = self._window(self._loaded(use))
            offset = offset + (box.rows.start - loaded.rows.start) * (tile_w * tile_c)
        return self._buffer(use) + offset, 0, 0

    def wait(self, step: Step) -> Expr:
        """Return what the step waits for: its tile, where it is the first to read it."""
        return unless(INPUT_RESIDENT, self.feed.first(step.t) * self.shake.filled)

    def post(self, step: Step) -> Expr:
        """Return what the step posts: its tile's buffer, where it is the last to read it."""
        released = self.shake.release(self.feed.number(step.t))
        return unless(INPUT_RESIDENT, self.feed.last(step.t) * released)
