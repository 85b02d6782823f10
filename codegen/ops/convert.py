"""Conversion: quantise, dequantise, rescale, and moves between layouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.arithmetic import FIXED_POINT, finish, rescale
from codegen.borders import (
    IDENTITY_MULTIPLIER,
    IDENTITY_SHIFT,
    INTEGER_LIMITS,
    border_of,
    convert,
)
from codegen.expr import param
from codegen.graph import Tensor
from codegen.kernel import Instr
from codegen.ops.base import Constraint, Operator
from codegen.ops.border_scalars import real_scale
from codegen.ops.vector import VectorOperator
from codegen.profiles import Profile, scaling
from codegen.quantization import (
    dequantize_reference,
    from_nhwc,
    quantize_reference,
    to_nhwc,
)
from codegen.vector_kernel import VectorShape, VectorStep, same_extent
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import float32_bits

SCALARS = ("in_zp", "multiplier", "shift", "out_scale", "out_zp", "lo", "hi")


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Element types must be float32 or integer types that the NPU has."""
    allowed = (*npu.capabilities.activation_types, "float32")
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.dtype not in allowed:
            return tensor.dtype
    return None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Convert(VectorOperator):
    """y = convert(x): the tensors' types, quantisation and layouts say how.

    `values` are the scalars of CONVERT in the order of SCALARS; use the constructors below.
    """

    mode: str
    rounding: Rounding
    values: tuple[int, ...]

    kind: ClassVar[str] = "convert"
    constraints: ClassVar[tuple[Constraint, ...]] = (_types,)

    @classmethod
    def move(cls, name: str, source: Tensor, target: Tensor, names: tuple[str, ...] = ()) -> Convert:
        """Return a move of equal types: a copy, or a change of layout."""
        low, high = INTEGER_LIMITS.get(source.dtype, (0, 0))
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="move",
            rounding=Rounding.SINGLE_UP if source.dtype != "float32" else Rounding.FLOAT_RNE,
            values=(0, IDENTITY_MULTIPLIER, IDENTITY_SHIFT, 0, 0, low, high),
        )  # fmt: skip

    @classmethod
    def quantize(
        cls, name: str, source: Tensor, target: Tensor, names: tuple[str, ...] = ()
    ) -> Convert:
        """Return QuantizeLinear of float32 `source` by the target's quantisation."""
        low, high = INTEGER_LIMITS[target.dtype]
        quant = target.quant
        assert quant is not None
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="quantize",
            rounding=Rounding.FLOAT_RNE,
            values=(0, 0, 0, float32_bits(quant.scale), quant.zero_point, low, high),
        )  # fmt: skip

    @classmethod
    def dequantize(
        cls, name: str, source: Tensor, target: Tensor, names: tuple[str, ...] = ()
    ) -> Convert:
        """Return DequantizeLinear of `source` by its quantisation."""
        quant = source.quant
        assert quant is not None
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="dequantize",
            rounding=Rounding.FLOAT_RNE,
            values=(quant.zero_point, float32_bits(quant.scale), 0, 0, 0, 0, 0),
        )  # fmt: skip

    @classmethod
    def rescale(
        cls,
        name: str,
        source: Tensor,
        target: Tensor,
        profile: Profile,
        clamp: tuple[int, int] | None = None,
        names: tuple[str, ...] = (),
    ) -> Convert:
        """Return integer to integer: DequantizeLinear, (clamp,) QuantizeLinear in the profile."""
        assert source.quant is not None and target.quant is not None
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="rescale",
            rounding=profile.rounding, values=rescale_values(source, target, profile, clamp),
        )  # fmt: skip

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return the rounding mode."""
        return (int(self.rounding),)

    def describe(self) -> str:
        """Return the mode."""
        return self.mode

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        target = border_of(self.outputs[0])
        source = same_extent(border_of(self.inputs[0]), target)
        return VectorShape((source,), target, self.outputs[0].hwc)

    def scalars(self) -> dict[str, int]:
        """Return the scalars of CONVERT."""
        return dict(zip(SCALARS, self.values, strict=True))

    def emit(self, step: VectorStep) -> Instr:
        """Return the CONVERT of a step."""
        source, target = step.inputs[0], step.output
        return convert(
            target.box,
            (source.border, source.address, source.tile),
            (target.border, target.address, target.tile),
            {name: param(name) for name in SCALARS},
            int(self.rounding), wait=step.wait, post=step.post,
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the converted tensor."""
        source, target = self.inputs[0], self.outputs[0]
        x = to_nhwc(inputs[0], source)
        if self.mode == "quantize":
            assert target.quant is not None
            x = quantize_reference(x, target.quant, target.dtype)
        elif self.mode == "dequantize":
            assert source.quant is not None
            x = dequantize_reference(x, source.quant)
        elif self.mode == "rescale":
            x = rescale_reference(x, source, target, self.rounding, self.values)
        return from_nhwc(x.astype(target.dtype), target)


def rescale_values(
    source: Tensor, target: Tensor, profile: Profile, clamp: tuple[int, int] | None = None
) -> tuple[int, ...]:
    """Return the CONVERT scalars that rescale `source` to `target`'s quantisation."""
    assert source.quant is not None and target.quant is not None
    low, high = clamp or INTEGER_LIMITS[target.dtype]
    zero_points = source.quant.zero_point, target.quant.zero_point
    if profile.rounding == Rounding.FLOAT_RNE:
        scales = float32_bits(source.quant.scale), float32_bits(target.quant.scale)
        return zero_points[0], scales[0], 0, scales[1], zero_points[1], low, high
    ratio = scaling(profile.rounding, np.array([real_scale(source) / real_scale(target)]))
    multiplier, shift = int(ratio.multiplier[0]), int(ratio.shift[0])
    return zero_points[0], multiplier, shift, 0, zero_points[1], low, high


def rescale_reference(
    x: NDArray[np.generic], source: Tensor, target: Tensor, mode: Rounding, values: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return integer `x` rescaled in a rounding mode, from the tensors' own scales."""
    assert source.quant is not None and target.quant is not None
    in_zp, multiplier, shift, _, out_zp, low, high = values
    centred = x.astype(np.int64) - in_zp
    if mode.name in FIXED_POINT:
        rounded = rescale(centred, mode.name, np.array(multiplier), np.array(shift), np.array(0))
        return finish(rounded, out_zp, low, high)
    real = centred.astype(np.float32) * np.float32(source.quant.scale)
    return finish(np.rint(real / np.float32(target.quant.scale)), out_zp, low, high)
