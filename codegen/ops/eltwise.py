"""Element-wise add, subtract, multiply, minimum and maximum with rescaling and broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.arithmetic import FIXED_POINT, finish, rescale
from codegen.borders import DTYPE_CODE, border_of
from codegen.expr import param
from codegen.graph import Tensor
from codegen.kernel import Instr, instr
from codegen.ops.base import Constraint, Operator
from codegen.ops.border_scalars import real_scale
from codegen.ops.vector import VectorOperator, operand_fields, span_sizes
from codegen.profiles import ADD_LEFT_SHIFT, Profile, scaling
from codegen.vector_kernel import Operand, VectorShape, VectorStep, same_extent
from runtime_sim.isa.fields import EltwiseOp, Rounding
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import float32_bits

_COMBINE = {
    EltwiseOp.ADD: np.add,
    EltwiseOp.SUB: np.subtract,
    EltwiseOp.MUL: np.multiply,
    EltwiseOp.MIN: np.minimum,
    EltwiseOp.MAX: np.maximum,
}
_SCALED = ("a_mult", "a_shift", "b_mult", "b_shift", "out_mult", "out_shift")


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Operands and result must be integer types that the NPU has."""
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.dtype not in npu.capabilities.activation_types:
            return tensor.dtype
    return None


def _broadcast(operator: Operator, npu: NpuConfig) -> str | None:
    """The first operand must have the result's shape; the second may broadcast along any axis."""
    del npu
    (a, b), out = (tensor.hwc for tensor in operator.inputs), operator.outputs[0].hwc
    fits = all(size in (1, full) for size, full in zip(b, out, strict=True))
    return None if a == out and fits else f"{a} and {b} to {out}"


def _layout(operator: Operator, npu: NpuConfig) -> str | None:
    """Operands and result must be NHWC."""
    del npu
    planar = [t.name for t in (*operator.inputs, *operator.outputs) if border_of(t).planar]
    return ", ".join(planar) or None


def _rounding(operator: Operator, npu: NpuConfig) -> str | None:
    """The rounding mode must be one that the NPU has: FLOAT_RNE needs a float requantiser."""
    assert isinstance(operator, Eltwise)
    lacking = operator.rounding == Rounding.FLOAT_RNE and not npu.capabilities.float_requantizer
    return operator.rounding.name if lacking else None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Eltwise(VectorOperator):
    """y = requantise(op(rescale(a - za), rescale(b - zb))); MUL multiplies before rescaling.

    `scaled`: the multipliers and shifts of ELTWISE in the order a, b, out (float32 bits and 0 in
    FLOAT_RNE). `clamp`: the output's integer limits.
    """

    op: EltwiseOp
    rounding: Rounding
    left_shift: int
    scaled: tuple[int, ...]
    clamp: tuple[int, int]

    kind: ClassVar[str] = "eltwise"
    constraints: ClassVar[tuple[Constraint, ...]] = (_types, _broadcast, _layout, _rounding)

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
        a, b, out = (*self.inputs, *self.outputs)
        assert a.quant is not None and b.quant is not None and out.quant is not None
        values = {"a_zp": a.quant.zero_point, "b_zp": b.quant.zero_point}
        values |= dict(zip(_SCALED, self.scaled, strict=True))
        return values | {"out_zp": out.quant.zero_point, "lo": self.clamp[0], "hi": self.clamp[1]}

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
        a, b, out = (*self.inputs, *self.outputs)
        assert a.quant is not None and b.quant is not None and out.quant is not None
        x = inputs[0].reshape(a.hwc).astype(np.int64) - a.quant.zero_point
        y = inputs[1].reshape(b.hwc).astype(np.int64) - b.quant.zero_point
        if self.rounding.name in FIXED_POINT:
            rounded = self._fixed_point(x, y)
        else:
            fx = x.astype(np.float32) * np.float32(a.quant.scale)
            fy = y.astype(np.float32) * np.float32(b.quant.scale)
            combined = _COMBINE[self.op](fx, fy).astype(np.float32)
            rounded = np.rint(combined / np.float32(out.quant.scale))
        result = finish(rounded, out.quant.zero_point, *self.clamp)
        return result.astype(out.dtype).reshape(out.shape)

    def _fixed_point(self, x: NDArray[np.int64], y: NDArray[np.int64]) -> NDArray[np.int64]:
        mode, nothing = self.rounding.name, np.array(0)
        (aq, as_, bq, bs, oq, os_) = (np.array(value) for value in self.scaled)
        if self.op != EltwiseOp.MUL:
            x = rescale(x << self.left_shift, mode, aq, as_, nothing)
            y = rescale(y << self.left_shift, mode, bq, bs, nothing)
        return rescale(_COMBINE[self.op](x, y), mode, oq, os_, nothing)


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
    left_shift = 0
    if profile.rounding == Rounding.FLOAT_RNE:
        bits = [float32_bits(scale) for scale in (scale_a, scale_b, scale_out)]
        scaled = (bits[0], 0, bits[1], 0, bits[2], 0)
    else:
        if op == EltwiseOp.MUL:
            reals = (1.0, 1.0, scale_a * scale_b / scale_out)
        elif profile.add_common_scale:
            left_shift, common = ADD_LEFT_SHIFT, 2 * max(scale_a, scale_b)
            reals = (scale_a / common, scale_b / common, common / (2**left_shift * scale_out))
        else:
            reals = (scale_a / scale_out, scale_b / scale_out, 1.0)
        s = scaling(profile.rounding, np.array(reals))
        pairs = zip(s.multiplier.tolist(), s.shift.tolist(), strict=True)
        scaled = tuple(value for pair in pairs for value in pair)
    return Eltwise(
        name=name, inputs=(a, b), outputs=(out,), source_names=names, op=op,
        rounding=profile.rounding, left_shift=left_shift, scaled=scaled, clamp=clamp,
    )  # fmt: skip
