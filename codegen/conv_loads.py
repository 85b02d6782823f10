"""The loads of a tiled convolution kernel: input tiles, weights, parameters."""

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
from codegen.conv_plan import PARAMS_FULL, RECORD_BYTES, ZERO_POINTS_FULL, ConvPlan, Step
from codegen.expr import Expr, ExprLike, as_expr, less, param, select
from codegen.kernel import Guard, Instr, Node, instr
from codegen.tiles import tile_span


class ConvLoads(ConvPlan):
    """Adds the loads to a plan."""

    def load(self, t: Expr) -> tuple[Node, ...]:
        """Return the loads that step `t` needs and no earlier step has made."""
        nodes = self.load_input(t)
        lone = self.s.weights == "stream" and self.s.weight_buffers == 1
        if lone and self.channel_outer:
            first = less(self.step(t).spatial, 1)
            nodes += (Guard(first, (self.load_weights(self.step(t).channel, as_expr(0)),)),)
        return nodes

    def load_input(self, t: Expr) -> tuple[Node, ...]:
        """Return the load of step `t`'s input tile, where it is new."""
        step = self.step(t)
        use = self.input_use(step)
        box, _, _ = self.input_box(step)
        body = self._stage_and_convert(box, use) if self.at.converts_in else (self._load(box, use),)
        wanted = select(self.resident, 0, 1)
        if not self.loads_each_step and self.at.channel_tiles > 1:
            wanted = select(self.resident, 0, less(t % self.at.channel_tiles, 1))
        return (Guard(wanted, body),)

    def _load(self, box: Box, use: Expr) -> Instr:
        address = param("spm") + self.at.input + self.inputs.slot(use) * self.at.in_bytes
        return dma(
            "LOAD", self.shape.source, box, param("in0"), address, self.at.in_tile,
            wait=self.inputs.acquire(use), post=self.inputs.filled,
        )  # fmt: skip

    def _stage_and_convert(self, box: Box, use: Expr) -> tuple[Node, ...]:
        source, tile = self.shape.source, self.at.in_tile
        staged = self.at.in_bytes * source.item
        stage = param("spm") + self.at.stage_in + self.stage.slot(use) * staged
        target = Border(self.shape.a_type, "NHWC", source.height, source.width, source.channels)
        address = param("spm") + self.at.input + self.inputs.slot(use) * self.at.in_bytes
        return (
            dma(
                "LOAD", source, box, param("in0"), stage, tile,
                wait=self.stage.acquire(use), post=self.stage.filled,
            ),
            convert(
                box, (source, stage, tile), (target, address, tile), self._convert_scalars(),
                border_rounding(source.dtype),
                wait=self.inputs.acquire(use) + self.stage.filled,
                post=self.stage.release(use) + self.inputs.filled,
            ),
        )  # fmt: skip

    def _convert_scalars(self) -> Mapping[str, ExprLike]:
        if self.shape.source.dtype == "float32":
            return quantize_scalars(self.shape.a_type, param("in_scale"), param("in_zp"))
        return identity_scalars(self.shape.a_type)

    def load_weights(self, channel: Expr, depth: Expr) -> Instr:
        """Return the load of one weight tile (channel tile, depth tile)."""
        offset, size = self.weight_piece(channel, depth)
        address = param("spm") + self.weight_address(channel, depth)
        resident = self.s.weights == "resident"
        wait = 0 if resident else self.weights.acquire(self.weight_use(channel, depth))
        return instr(
            "LOAD", dram=param("weights") + offset, spm_addr=address, n0=1, n1=1, n2=1, run=size,
            wait=wait, post=self.weights.filled,
        )  # fmt: skip

    def weight_piece(self, channel: Expr, depth: Expr) -> tuple[Expr, Expr]:
        """Return (offset, bytes) of a weight tile within the packed weights."""
        chans = self.channels(channel)
        shape = self.shape
        if shape.depthwise:
            return chans.start * shape.taps, chans.size * shape.taps
        inner = tile_span(depth, self.s.tile_ic, 0, shape.group_in)
        offset = chans.start * shape.depth + inner.start * shape.taps * chans.size
        return offset, chans.size * inner.size * shape.taps

    def weight_use(self, channel: Expr, depth: Expr) -> Expr:
        """Return the running number of a streamed weight load, for the step variable's tile."""
        del depth
        return channel

    def weight_address(self, channel: Expr, depth: Expr) -> Expr:
        """Return the offset of a weight tile from the kernel's scratchpad base."""
        if self.s.weights == "resident":
            return self.weight_piece(channel, depth)[0] + self.at.weights
        use = self.weight_use(channel, depth)
        return self.weights.slot(use) * self.at.weight_tile + self.at.weights

    def stream_weights(self, use: Expr) -> Instr:
        """Return streamed weight load number `use` in spatial_outer order."""
        pieces = self.at.channel_tiles * self.at.depth_tiles
        piece = use % pieces
        channel, depth = piece // self.at.depth_tiles, piece % self.at.depth_tiles
        offset, size = self.weight_piece(channel, depth)
        slot = self.weights.slot(use) * self.at.weight_tile + self.at.weights
        return instr(
            "LOAD", dram=param("weights") + offset, spm_addr=param("spm") + slot,
            n0=1, n1=1, n2=1, run=size, wait=self.weights.acquire(use), post=self.weights.filled,
        )  # fmt: skip

    def prefetch_weights(self, step: Step, i: Expr) -> tuple[Node, ...]:
        """Return the load of the weight piece that (step, depth tile) `i` is followed by.

        Resident pieces are loaded while the first tile that needs each is still to come, so that
        they hold up neither the inputs nor the stores.
        """
        if self.s.weights == "resident":
            return self._prefetch_resident(step, i)
        if self.channel_outer:
            return self._prefetch_channel(step)
        use = step.t * self.at.depth_tiles + i
        if self.s.weight_buffers == 1:
            return (Guard(less(0, use), (self.stream_weights(use),)),)
        return (Guard(less(use + 1, self.weights.total), (self.stream_weights(use + 1),)),)

    def _prefetch_channel(self, step: Step) -> tuple[Node, ...]:
        """Return the load of the next channel tile's weights, as the current tile begins.

        A lone buffer has to wait for the tile's end: `load` fills it.
        """
        following = step.channel + 1
        if self.s.weight_buffers == 1 or self.at.channel_tiles == 1:
            return ()
        wanted = less(step.spatial, 1) * less(following, self.at.channel_tiles)
        return (Guard(wanted, (self.load_weights(following, as_expr(0)),)),)

    def _prefetch_resident(self, step: Step, i: Expr) -> tuple[Node, ...]:
        depth_tiles = self.at.depth_tiles
        pieces = self.at.channel_tiles * depth_tiles
        if pieces == 1:
            return ()
        if self.channel_outer:
            following = step.channel * depth_tiles + i + 1
            wanted = less(step.spatial, 1) * less(following, pieces)
        else:
            following = step.t * depth_tiles + i + 1
            wanted = less(following, pieces)
        piece = self.load_weights(following // depth_tiles, following % depth_tiles)
        return (Guard(select(self.loaded, 0, wanted), (piece,)),)

    def load_constants(self) -> tuple[Node, ...]:
        """Return the loads of the first weights, the zero points and the parameters."""
        size, unloaded = self.shape.target.channels, select(self.loaded, 0, 1)
        nodes: list[Node] = []
        if self.shape.vector_zero_points:
            nodes.append(self._block("zero_points", self.at.zero_points, size, ZERO_POINTS_FULL))
        nodes.append(self._block("params", self.at.params, size * RECORD_BYTES, PARAMS_FULL))
        if self.s.weights == "resident":
            return (Guard(unloaded, (self._load_weights_first(), *nodes)),)
        return (self._load_weights_first(), Guard(unloaded, tuple(nodes)))

    def _load_weights_first(self) -> Instr:
        if self.s.weights == "stream" and not self.channel_outer:
            return self.stream_weights(as_expr(0))
        return self.load_weights(as_expr(0), as_expr(0))

    def _block(self, name: str, offset: int, size: int, semaphore: int) -> Instr:
        return instr(
            "LOAD", dram=param(name), spm_addr=param("spm") + offset, n0=1, n1=1, n2=1, run=size,
            post=1 << semaphore,
        )  # fmt: skip
