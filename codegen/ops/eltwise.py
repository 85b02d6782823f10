"""Element-wise add, subtract, multiply, minimum and maximum with rescaling and broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.borders import DTYPE_CODE, border_of
from codegen.expr import param
from codegen.graph import Tensor, quant_of
from codegen.kernel import Instr, instr
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import (
    channels_last,
    extents,
    integer_types,
    rounding_available,
    rounding_defined,
)
from codegen.ops.draw import CONVERTIBLE_MODES, CaseSource
from codegen.ops.vector import VectorOperator, operand_fields, span_sizes
from codegen.profiles import ADD_LEFT_SHIFT, Profile, scaling
from codegen.quantization import real_scale
from codegen.vector_kernel import Operand, VectorShape, VectorStep, same_extent
from runtime_sim.isa.fields import EltwiseOp, Rounding
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import float32_bits

_SCALED = ("a_mult", "a_shift", "b_mult", "b_shift", "out_mult", "out_shift")


def _broadcast(operator: Operator, npu: NpuConfig) -> str | None:
    """The first operand must have the result's shape; the second may have 1 along any axis."""
    del npu
    (a, b), out = (tensor.hwc for tensor in operator.inputs), operator.outputs[0].hwc
    fits = all(size in (1, full) for size, full in zip(b, out, strict=True))
    return None if a == out and fits else f"{a} and {b} to {out}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Eltwise(VectorOperator):
    """y = requantise(op(rescale(a - za), rescale(b - zb))); MUL multiplies before rescaling.

    `scales`: what a, b and the combined value are multiplied by; in FLOAT_RNE the tensors' scales,
    the last of which divides. `clamp`: the output's integer limits.
    """

    op: EltwiseOp
    rounding: Rounding
    left_shift: int
    scales: tuple[float, float, float]
    clamp: tuple[int, int]

    kind: ClassVar[str] = "eltwise"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, _broadcast, channels_last, extents, rounding_defined, rounding_available,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Eltwise:
        """Return a random operation; the second operand broadcasts along any axes."""
        a = source.image()
        shape = tuple(1 if source.chance(0.2) else size for size in a.shape[1:])
        op, profile = source.pick(*EltwiseOp), source.profile(CONVERTIBLE_MODES)
        scale = real_scale(a)
        b = source.input(shape, scale)
        near = scale * real_scale(b) * 60 if op == EltwiseOp.MUL else scale
        out = source.tensor(a.shape[1:], None, near)
        clamp = source.clamp(out.dtype)
        return eltwise(source.name(cls.kind), op, (a, b, out), profile, clamp)

    @property
    def rounding_mode(self) -> Rounding:
        """Return the rounding mode."""
        return self.rounding

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return operation, rounding and left shift."""
        return (int(self.op), int(self.rounding), self.left_shift)

    def describe(self) -> str:
        """Return the operation."""
        return self.op.name.lower()

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        target = border_of(self.outputs[0])
        sources = tuple(same_extent(border_of(tensor), target) for tensor in self.inputs)
        return VectorShape(sources, target, self.outputs[0].hwc)

    def scalars(self) -> dict[str, int]:
        """Return zero points, multipliers and clamps."""
        a, b, out = (quant_of(tensor) for tensor in self.tensors)
        values = {"a_zp": a.zero_point, "b_zp": b.zero_point}
        values |= dict(zip(_SCALED, self.factors(), strict=True))
        return values | {"out_zp": out.zero_point, "lo": self.clamp[0], "hi": self.clamp[1]}

    def factors(self) -> tuple[int, ...]:
        """Return multipliers and shifts in the order a, b, out; in FLOAT_RNE float32 bits and 0."""
        if self.rounding == Rounding.FLOAT_RNE:
            pairs = [(float32_bits(scale), 0) for scale in self.scales]
        else:
            s = scaling(self.rounding, np.array(self.scales))
            pairs = list(zip(s.multiplier.tolist(), s.shift.tolist(), strict=True))
        return tuple(value for pair in pairs for value in pair)

    def emit(self, step: VectorStep) -> Instr:
        """Return the ELTWISE of a step."""
        (a, b), out = step.inputs, step.output
        source = self.shape().sources[1]
        second = operand_fields("b", b)
        if source.broadcasts_rows:
            second["b_row_stride"] = 0
        if source.broadcasts_cols:
            second["b_pixel_stride"] = 0
        return instr(
            "ELTWISE", wait=step.wait, post=step.post, op=int(self.op),
            **span_sizes(out.box.rows, out.box.cols, out.box.chans),
            **operand_fields("a", a), **second, **operand_fields("out", out),
            b_broadcast=int(_one_channel(b, out)),
            a_type=DTYPE_CODE[a.border.dtype], b_type=DTYPE_CODE[b.border.dtype],
            out_type=DTYPE_CODE[out.border.dtype], left_shift=self.left_shift,
            rounding=int(self.rounding), **{name: param(name) for name in self.scalars()},
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the combined tensor, broadcasting as NumPy does."""
        a, b = (
            array.reshape(tensor.hwc).astype(np.int64) - quant_of(tensor).zero_point
            for array, tensor in zip(inputs, self.inputs, strict=True)
        )
        out = self.outputs[0]
        offset = (quant_of(out).zero_point, *self.clamp)
        result = reference.combine(
            self.op.name, (a, b), self.scales, self.rounding.name, self.left_shift, offset
        )
        return result.astype(out.dtype).reshape(out.shape)


def _one_channel(b: Operand, out: Operand) -> bool:
    return b.border.channels == 1 and out.border.channels > 1


def eltwise(
    name: str,
    op: EltwiseOp,
    tensors: tuple[Tensor, Tensor, Tensor],
    profile: Profile,
    clamp: tuple[int, int],
    names: tuple[str, ...] = (),
) -> Eltwise:
    """Build an element-wise operator on (a, b, out), scaled as the profile says.

    Fixed point, common scale (TFLite ADD): t = 2 max(sa, sb); operands are scaled by s / t after
    a left shift of 20, the result by t / (2^20 so). Relay: each operand is requantised to the
    output scale. FLOAT_RNE: dequantise, combine, quantise in float32 (ONNX Q/DQ).
    """
    a, b, out = tensors
    scale_a, scale_b, scale_out = (real_scale(tensor) for tensor in tensors)
    left_shift, scales = 0, (scale_a, scale_b, scale_out)
    if profile.rounding != Rounding.FLOAT_RNE:
        if op == EltwiseOp.MUL:
            scales = 1.0, 1.0, scale_a * scale_b / scale_out
        elif profile.add_common_scale:
            left_shift, common = ADD_LEFT_SHIFT, 2 * max(scale_a, scale_b)
            last = common / (2**left_shift * scale_out)
            scales = scale_a / common, scale_b / common, last
        else:
            scales = scale_a / scale_out, scale_b / scale_out, 1.0
    return Eltwise(
        name=name, inputs=(a, b), outputs=(out,), source_names=names, op=op,
        rounding=profile.rounding, left_shift=left_shift, scales=scales, clamp=clamp,
    )  # fmt: skip
