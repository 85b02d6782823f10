"""The tiled kernel of convolution, depthwise convolution and dense layers.

Steps run over (spatial tile, channel tile) pairs; `codegen.tiles.pipelined` overlaps them. Each
step convolves into one of the rotating ACC buffers, requantises into an output buffer and stores.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.borders import (
    DTYPE_CODE,
    Border,
    Box,
    border_rounding,
    convert,
    dequantize_scalars,
    dma,
    identity_scalars,
)
from codegen.conv_loads import ConvLoads
from codegen.conv_plan import PARAMS_FULL, RECORD_BYTES, ZERO_POINTS_FULL, Step
from codegen.expr import Expr, ExprLike, as_expr, less, maximum, param, select, var
from codegen.kernel import (
    STANDARD_PARAMS,
    Comment,
    Guard,
    Instr,
    Kernel,
    Loop,
    Node,
    instr,
    spm_fields,
)
from codegen.tiles import pipelined, tile_span


class ConvKernel(ConvLoads):
    """Adds computation, stores and the whole kernel to the loads."""

    def compute(self, t: Expr) -> tuple[Node, ...]:
        """Return the convolution and the requantisation of step `t`."""
        step, i = self.step(t), var("i")
        nodes: tuple[Node, ...]
        if self.at.depth_tiles == 1:
            nodes = self.prefetch_weights(step, as_expr(0)) + (self.convolve(step, as_expr(0)),)
        else:
            body = (*self.prefetch_weights(step, i), self.convolve(step, i))
            nodes = (Loop("i", as_expr(self.at.depth_tiles), body),)
        return nodes + self.requantise(step)

    def convolve(self, step: Step, i: Expr) -> Instr:
        """Return the matrix command of (step, depth tile)."""
        box, above, left = self.input_box(step)
        wait, post = self._matrix_semaphores(step, i)
        shape, s = self.shape, self.s
        acc = param("acc") + self.acc.slot(step.t) * self.at.acc_elements
        fields: dict[str, ExprLike] = {
            "a_type": DTYPE_CODE[shape.a_type], "w_type": DTYPE_CODE[shape.w_type],
            "in_h": box.rows.size, "in_w": box.cols.size,
            "out_h": step.rows.size, "out_w": step.cols.size,
            "kh": shape.rows.kernel, "kw": shape.cols.kernel,
            "sh": shape.rows.stride, "sw": shape.cols.stride,
            "dh": shape.rows.dilation, "dw": shape.cols.dilation,
            "pad_top": above, "pad_left": left, "pad_value": param("pad_value"),
            "in_zp": param("in_zp"), "w_zp": param("w_zp"),
            "w_addr": self._weight_operand(step, i), "acc_addr": acc, "acc_stride": s.tile_oc,
        }  # fmt: skip
        if shape.vector_zero_points:
            fields["w_zp_vector"] = 1
            fields["w_zp_addr"] = param("spm") + self.at.zero_points + step.chans.start
        fields |= self._input_operand(step, box, i)
        if shape.depthwise:
            return instr(
                "DWCONV", wait=wait, post=post, c=box.chans.size, mult=shape.mult, **fields
            )
        inner = tile_span(i, s.tile_ic, 0, shape.group_in)
        return instr(
            "CONV", wait=wait, post=post, ic=inner.size, oc=step.chans.size,
            packed=int(s.micro_kernel == "packed_taps"), accumulate=less(0, i), **fields,
        )  # fmt: skip

    def _weight_operand(self, step: Step, i: Expr) -> Expr:
        if self.s.weights == "stream" and not self.channel_outer:
            use = step.t * self.at.depth_tiles + i
            return param("spm") + self.weights.slot(use) * self.at.weight_tile + self.at.weights
        return param("spm") + self.weight_address(step.channel, i)

    def _input_operand(self, step: Step, box: Box, i: Expr) -> dict[str, ExprLike]:
        """Return the operand fields: a rotating buffer, or the resident ring."""
        _, tile_w, tile_c = self.at.in_tile
        source = self.shape.source
        group, _ = self.group_of(step.channel)
        inner: Expr = group * self.shape.group_in + i * self.s.tile_ic
        if self.shape.depthwise:
            inner = as_expr(0)
        buffer = self.inputs.slot(self.input_use(step)) * self.at.in_bytes
        ring = param("in_ring") // source.step[0]
        pixel, row = source.channels * source.step[1], source.width * source.channels
        ringed = param("in_spm") + (box.cols.start * pixel + box.chans.start)
        return spm_fields(
            "in",
            select(self.resident, ringed, param("spm") + self.at.input + buffer) + inner,
            select(self.resident, row * source.step[0], tile_w * tile_c),
            select(self.resident, pixel, tile_c),
            select(self.resident, ring, 0),
            select(self.resident, box.rows.start % maximum(ring, 1), 0),
        )

    def _matrix_semaphores(self, step: Step, i: Expr) -> tuple[Expr, Expr]:
        t, tiles, last = step.t, self.at.channel_tiles, less(self.at.depth_tiles - 2, i)
        first = less(i, 1)
        fresh, spent = as_expr(1), as_expr(1)
        if not self.loads_each_step and tiles > 1:
            fresh, spent = less(t % tiles, 1), less(tiles - 2, t % tiles)
        taken = select(self.resident, 0, fresh * first)
        wait = taken * self.inputs.filled + first * self.acc.acquire(t)
        post = last * self.acc.filled + select(
            self.resident, 0, spent * last * self.inputs.release(self.input_use(step))
        )
        weight_wait, weight_post = self._weight_semaphores(step, i)
        wait = wait + weight_wait
        if self.shape.vector_zero_points:
            unread = select(self.loaded, 0, less(t, 1) * first)
            wait = wait + unread * (1 << ZERO_POINTS_FULL)
        return wait, post + weight_post

    def _weight_semaphores(self, step: Step, i: Expr) -> tuple[Expr, Expr]:
        t, filled = step.t, self.weights.filled
        if self.s.weights == "resident":
            fresh = less(t, self.at.channel_tiles)
            if self.channel_outer:
                fresh = less(step.spatial, 1)
            return select(self.loaded, 0, fresh) * filled, as_expr(0)
        if self.channel_outer:
            spent = less(self.spatial_tiles - 2, step.spatial)
            post = spent * self.weights.release(step.channel)
            return less(step.spatial, 1) * filled, post
        use = t * self.at.depth_tiles + i
        return as_expr(filled), self.weights.release(use)

    def requantise(self, step: Step) -> tuple[Node, ...]:
        """Return the requantisation of a step, and the conversion of a border output."""
        converts, kept = self.at.converts_out, self.kept
        box = Box(step.rows, step.cols, step.chans)
        acquire, filled = self.outputs.acquire(step.t), as_expr(self.outputs.filled)
        wait = self.acc.filled + less(step.t, 1) * select(self.loaded, 0, 1 << PARAMS_FULL)
        post = self.acc.release(step.t)
        if not converts:
            wait = wait + select(kept, 0, acquire)
            post = post + select(kept, 0, filled)
        acc = param("acc") + self.acc.slot(step.t) * self.at.acc_elements
        requant = instr(
            "REQUANT", wait=wait, post=post, acc_addr=acc, acc_stride=self.s.tile_oc,
            h=step.rows.size, w=step.cols.size, c=step.chans.size,
            out_type=DTYPE_CODE[self.shape.out_type],
            params=param("spm") + self.at.params + step.chans.start * RECORD_BYTES,
            rounding=self.shape.rounding,
            out_zp=param("out_zp"), lo=param("lo"), hi=param("hi"),
            **self._output_operand(step),
        )  # fmt: skip
        if not converts:
            return (requant,)
        target, tile = self.shape.target, self.at.out_tile
        source = Border(self.shape.out_type, "NHWC", target.height, target.width, target.channels)
        conversion = convert(
            box, (source, param("spm") + self.at.output, tile), (target, self._stage(step.t), tile),
            self._border_scalars(), border_rounding(target.dtype), wait=acquire, post=filled,
        )  # fmt: skip
        return requant, Guard(select(kept, 0, 1), (conversion,))

    def _border_scalars(self) -> Mapping[str, ExprLike]:
        if self.shape.target.dtype == "float32":
            return dequantize_scalars(param("out_scale"), param("out_zp"))
        return identity_scalars(self.shape.out_type)

    def _output_operand(self, step: Step) -> dict[str, ExprLike]:
        target, ring = self.shape.target, param("out_ring")
        slot = as_expr(0) if self.at.converts_out else self.outputs.slot(step.t)
        buffer = param("spm") + self.at.output + slot * self.at.out_bytes
        ringed = param("out_spm") + (step.cols.start * target.channels + step.chans.start)
        return spm_fields(
            "out",
            select(self.kept, ringed, buffer),
            select(self.kept, target.width * target.channels, self.s.tile_w * self.s.tile_oc),
            select(self.kept, target.channels, self.s.tile_oc),
            select(self.kept, ring, 0),
            select(self.kept, step.rows.start % maximum(ring, 1), 0),
        )

    def _stage(self, t: Expr) -> Expr:
        staged = self.at.out_bytes * self.shape.target.item
        return param("spm") + self.at.stage_out + self.outputs.slot(t) * staged

    def store(self, t: Expr) -> tuple[Node, ...]:
        """Return the store of step `t`'s output tile."""
        step = self.step(t)
        address = self._stage(t)
        if not self.at.converts_out:
            address = param("spm") + self.at.output + self.outputs.slot(t) * self.at.out_bytes
        box = Box(step.rows, step.cols, step.chans)
        command = dma(
            "STORE", self.shape.target, box, param("out0"), address, self.at.out_tile,
            wait=self.outputs.filled, post=self.outputs.release(t),
        )  # fmt: skip
        return (Guard(select(self.kept, 0, 1), (command,)),)

    def build(self, name: str, doc: str) -> Kernel:
        """Return the kernel."""
        constants = self.load_constants()
        zero = as_expr(0)

        def load(t: Expr) -> tuple[Node, ...]:
            if t.constant == 0:
                return (*self.load_input(zero), *constants)
            return self.load(t)

        prefetch = self.s.in_buffers > 1
        if self.s.weights == "stream" and self.channel_outer:
            prefetch = prefetch and self.s.weight_buffers > 1
        body = pipelined(self.steps, load, self.compute, self.store, self.s.unroll, prefetch)
        params: tuple[str, ...] = (*STANDARD_PARAMS, "in0", "weights", "params", "out0")
        params += ("zero_points",) if self.shape.vector_zero_points else ()
        scalars = ["in_zp", "pad_value", "w_zp", "out_zp", "lo", "hi"]
        scalars += ["in_scale"] if self.shape.source.dtype == "float32" else []
        scalars += ["out_scale"] if self.shape.target.dtype == "float32" else []
        return Kernel(name, (*params, *scalars), (Comment(self.s.describe()), *body), doc)
