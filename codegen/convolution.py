"""The tiled kernel of convolution, depthwise convolution and dense layers.

Tile loops over output columns, rows and channels and over input channels make the steps (see
`conv_steps`). Each step is one matrix command. It adds to a tile of sums in ACC; where it completes
them they are requantised into an output buffer and stored. `codegen.tiles.pipelined` overlaps the
steps with their loads and stores.
"""

from __future__ import annotations

from codegen.borders import DTYPE_CODE
from codegen.conv_inputs import InputTiles
from codegen.conv_outputs import OutputTiles
from codegen.conv_plan import ConvShape
from codegen.conv_rolling import RollingInput
from codegen.conv_slices import SlicedInput
from codegen.conv_steps import ConvSteps, Step
from codegen.conv_weights import Constants
from codegen.expr import Expr, ExprLike, as_expr, less, minimum, param
from codegen.kernel import STANDARD_PARAMS, Comment, Instr, Kernel, Node, instr
from codegen.schedule import Schedule
from codegen.tiles import Stage, once, pipelined


class ConvKernel:
    """Builds the kernel of one (shape, schedule) pair."""

    def __init__(self, shape: ConvShape, schedule: Schedule) -> None:
        """Derive the loop nest and how its operands follow it."""
        self.steps = ConvSteps(shape, schedule)
        self.shape, self.s = self.steps.shape, schedule
        self.inputs, self.constants = _input_tiles(self.steps), Constants(self.steps)
        self.outputs = OutputTiles(self.steps)

    def build(self, name: str, doc: str) -> Kernel:
        """Return the kernel."""
        inputs, weights = self.inputs.feed.ahead, self.constants.feed.ahead
        ahead = minimum(inputs, weights)
        stages = (
            Stage(self.inputs.load, inputs), Stage(self.constants.load, weights),
            *(once(node, ahead, step) for node, step in self.constants.load_once()),
            Stage(self.outputs.store, -1), Stage(self._compute),
        )  # fmt: skip
        leads = [self.s.prefetch if e.constant is None else e.constant for e in (inputs, weights)]
        body = pipelined(self.steps.nest.steps, stages, max(leads), self.s.unroll)
        params: tuple[str, ...] = (*STANDARD_PARAMS, "in0", "weights", "params", "out0")
        params += ("zero_points",) if self.shape.vector_zero_points else ()
        scalars = ["in_zp", "pad_value", "w_zp", "out_zp", "lo", "hi"]
        scalars += ["in_scale"] if self.shape.source.dtype == "float32" else []
        scalars += ["out_scale"] if self.shape.target.dtype == "float32" else []
        return Kernel(name, (*params, *scalars), (Comment(self.s.describe()), *body), doc)

    def _compute(self, t: Expr) -> tuple[Node, ...]:
        step = self.steps.step(t)
        return (self._convolve(step), *self.outputs.requantise(step))

    def _convolve(self, step: Step) -> Instr:
        """Return the matrix command of a step."""
        shape, operands = self.shape, (self.inputs, self.constants, self.outputs)
        wait = sum((operand.wait(step) for operand in operands), as_expr(0))
        post = sum((operand.post(step) for operand in operands), as_expr(0))
        fields: dict[str, ExprLike] = {
            "a_type": DTYPE_CODE[shape.a_type], "w_type": DTYPE_CODE[shape.w_type],
            "out_h": step.out.rows.size, "out_w": step.out.cols.size,
            "kh": shape.rows.kernel, "kw": shape.cols.kernel,
            "sh": shape.rows.stride, "sw": shape.cols.stride,
            "dh": shape.rows.dilation, "dw": shape.cols.dilation,
            "pad_value": param("pad_value"), "in_zp": param("in_zp"),
            **self.inputs.operand(step), **self.constants.operand(step),
            **self.outputs.accumulator(step),
        }  # fmt: skip
        if shape.depthwise:
            return instr("DWCONV", wait=wait, post=post, mult=shape.mult, **fields)
        return instr(
            "CONV", wait=wait, post=post, oc=step.out.chans.size,
            packed=int(self.s.micro_kernel == "packed_taps"),
            stationary=int(self.s.micro_kernel == "pixel_stationary"),
            accumulate=less(0, step.index["depth"]), **fields,
        )  # fmt: skip


def _input_tiles(steps: ConvSteps) -> InputTiles:
    if steps.s.halo == "keep":
        return RollingInput(steps)
    return (SlicedInput if steps.s.load_ic == "tile" else InputTiles)(steps)
