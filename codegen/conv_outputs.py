"""The outputs of a convolution kernel: sums in ACC, requantisation, border conversion, stores."""

from __future__ import annotations

from collections.abc import Mapping

from codegen.borders import (
    DTYPE_CODE,
    Border,
    border_rounding,
    convert,
    dequantize_scalars,
    dma,
    identity_scalars,
)
from codegen.conv_plan import RECORD_BYTES
from codegen.conv_steps import OUTPUT_KEPT, PARAMS_FULL, WEIGHTS_LOADED, ConvSteps, Step, unless
from codegen.expr import Expr, ExprLike, as_expr, less, maximum, param, select
from codegen.kernel import Guard, Instr, Node, instr, spm_fields
from codegen.tiles import Handshake


class OutputTiles:
    """Output tiles are summed in ACC, requantised into rotating buffers and stored.

    A kept output goes to a ring of rows in SPM instead, and is not stored.
    """

    def __init__(self, steps: ConvSteps) -> None:
        """Derive how many output tiles there are."""
        self.steps, self.shape, self.s, self.at = steps, steps.shape, steps.s, steps.at
        names = [name for name, _ in steps.nest.loops]
        self._level = names.index("depth")
        outer, channels = steps.nest.iterations(self._level), self.at.acc_tiles
        total = outer * channels
        self.acc = Handshake(4, 5, self.s.acc_buffers * channels, total)
        self.outputs = Handshake(6, 7, self.s.out_buffers, total)

    def number(self, step: Step) -> Expr:
        """Return the number of the output tile that a step works on, in order of completion."""
        outer = self.steps.nest.number(step.t, self._level)
        if self.at.acc_tiles == 1:
            return outer
        return outer * self.at.acc_tiles + step.index["channel"]

    # --- sums in ACC ----------------------------------------------------------------------------

    def accumulator(self, step: Step) -> dict[str, ExprLike]:
        """Return the fields of the sums, for the commands that make and that read them."""
        slot = self.acc.slot(self.number(step))
        address = param("acc") + slot * self.at.acc_elements
        return {"acc_addr": address, "acc_stride": self.s.tile_oc}

    def wait(self, step: Step) -> Expr:
        """Return what a matrix command waits for: a free place in ACC, where it starts sums."""
        return step.starts * self.acc.acquire(self.number(step))

    def post(self, step: Step) -> Expr:
        """Return what a matrix command posts: sums that it completes."""
        return step.completes * self.acc.filled

    # --- requantisation -------------------------------------------------------------------------

    def requantise(self, step: Step) -> tuple[Node, ...]:
        """Return the requantisation of a completed tile, and the conversion of a border output."""
        converts, use = self.at.converts_out, self.number(step)
        acquire, filled = self.outputs.acquire(use), as_expr(self.outputs.filled)
        wait = self.acc.filled + less(use, 1) * unless(WEIGHTS_LOADED, 1 << PARAMS_FULL)
        post = self.acc.release(use)
        if not converts:
            wait, post = wait + unless(OUTPUT_KEPT, acquire), post + unless(OUTPUT_KEPT, filled)
        out = step.out
        requant = instr(
            "REQUANT", wait=wait, post=post,
            h=out.rows.size, w=out.cols.size, c=out.chans.size,
            out_type=DTYPE_CODE[self.shape.out_type],
            params=param("spm") + self.at.params + out.chans.start * RECORD_BYTES,
            rounding=self.shape.rounding,
            out_zp=param("out_zp"), lo=param("lo"), hi=param("hi"),
            **self.accumulator(step), **self._operand(step),
        )  # fmt: skip
        nodes: tuple[Node, ...] = (requant,)
        if converts:
            nodes += (Guard(unless(OUTPUT_KEPT, 1), (self._convert(step),)),)
        return (Guard(step.completes, nodes),)

    def _convert(self, step: Step) -> Instr:
        target, tile, use = self.shape.target, self.at.out_tile, self.number(step)
        source = Border(self.shape.out_type, "NHWC", target.height, target.width, target.channels)
        return convert(
            step.out, (source, param("spm") + self.at.output, tile),
            (target, self._stage(use), tile),
            self._border_scalars(), border_rounding(target.dtype),
            wait=self.outputs.acquire(use), post=self.outputs.filled,
        )  # fmt: skip

    def _border_scalars(self) -> Mapping[str, ExprLike]:
        if self.shape.target.dtype == "float32":
            return dequantize_scalars(param("out_scale"), param("out_zp"))
        return identity_scalars(self.shape.out_type)

    def _operand(self, step: Step) -> dict[str, ExprLike]:
        """Return where the requantised tile goes: into a buffer, or into the kept ring."""
        target, ring, out = self.shape.target, param("out_ring"), step.out
        buffer = param("spm") + self.at.output
        if not self.at.converts_out:
            buffer = self._buffer(self.number(step))
        ringed = param("out_spm") + (out.cols.start * target.channels + out.chans.start)
        return spm_fields(
            "out",
            select(OUTPUT_KEPT, ringed, buffer),
            select(OUTPUT_KEPT, target.width * target.channels, self.s.tile_w * self.s.tile_oc),
            select(OUTPUT_KEPT, target.channels, self.s.tile_oc),
            select(OUTPUT_KEPT, ring, 0),
            select(OUTPUT_KEPT, out.rows.start % maximum(ring, 1), 0),
        )

    def _buffer(self, use: Expr) -> Expr:
        return param("spm") + self.at.output + self.outputs.slot(use) * self.at.out_bytes

    def _stage(self, use: Expr) -> Expr:
        staged = self.at.out_bytes * self.shape.target.item
        return param("spm") + self.at.stage_out + self.outputs.slot(use) * staged

    # --- stores ---------------------------------------------------------------------------------

    def store(self, t: Expr) -> tuple[Node, ...]:
        """Return the store of the tile that step `t` completes."""
        step = self.steps.step(t)
        use = self.number(step)
        address = self._stage(use) if self.at.converts_out else self._buffer(use)
        command = dma(
            "STORE", self.shape.target, step.out, param("out0"), address, self.at.out_tile,
            wait=self.outputs.filled, post=self.outputs.release(use),
        )  # fmt: skip
        return (Guard(unless(OUTPUT_KEPT, step.completes), (command,)),)
