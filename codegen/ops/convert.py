"""Conversion: quantise, dequantise, rescale, and moves between layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import (
    CONVERT_SCALARS,
    border_of,
    convert,
    dequantize_scalars,
    identity_scalars,
    quantize_scalars,
)
from codegen.expr import param
from codegen.graph import Tensor, quant_of
from codegen.kernel import Instr
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import extents, rounding_available, rounding_defined
from codegen.ops.draw import CONVERTIBLE_MODES, CaseSource
from codegen.ops.vector import VectorOperator
from codegen.profiles import Profile, scaling
from codegen.quantization import laid_out, nhwc_of, real_scale
from codegen.vector_kernel import VectorShape, VectorStep, same_extent
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import float32_bits


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Element types must be float32 or integer types that the NPU has."""
    allowed = (*npu.capabilities.activation_types, "float32")
    for tensor in operator.tensors:
        if tensor.dtype not in allowed:
            return f"{tensor.dtype} {tensor.name}"
    return None


def _rounding(operator: Operator, npu: NpuConfig) -> str | None:
    """Integers must be rescaled in a rounding mode that is defined and that the NPU has."""
    assert isinstance(operator, Convert)
    if operator.mode != "rescale":
        return None
    wrong = rounding_defined(operator, npu) or rounding_available(operator, npu)
    return wrong


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Convert(VectorOperator):
    """y = convert(x): the tensors' types, quantisation and layouts say how.

    `values` are the scalars of CONVERT in the order of CONVERT_SCALARS; use the constructors below.
    `place` is where in a larger output the result goes (rows, columns, channels), for concat.
    """

    mode: str
    rounding: Rounding
    values: tuple[int, ...]
    place: tuple[int, int, int] | None = None

    kind: ClassVar[str] = "convert"
    constraints: ClassVar[tuple[Constraint, ...]] = (_types, extents, _rounding)

    @classmethod
    def draw(cls, source: CaseSource) -> Convert:
        """Return a random move, quantisation, dequantisation or rescaling between layouts."""
        name, x = source.name(cls.kind), source.image()
        y = replace(
            source.tensor(x.shape[1:], None, real_scale(x)),
            layout=_layout(source, source.border_out),
        )
        mode = source.pick("move", "quantize", "dequantize", "rescale")
        if not source.given:
            x = replace(x, layout=_layout(source, source.border_in))
            if mode == "quantize":
                x = replace(x, dtype="float32", quant=y.quant)
                rounding = source.pick(Rounding.FLOAT_RNE, Rounding.HALF_AWAY_F64)
                return cls.quantize(name, x, y, rounding=rounding)
            if mode == "move" and source.chance(0.4):
                x = replace(x, dtype="float32", quant=None)
        if mode == "move":
            return cls.move(name, x, replace(y, dtype=x.dtype, quant=x.quant))
        if mode == "dequantize" and source.border_out:
            return cls.dequantize(name, x, replace(y, dtype="float32", quant=x.quant))
        profile = source.profile(CONVERTIBLE_MODES)
        return cls.rescale(name, x, y, profile, source.clamp(y.dtype))

    @classmethod
    def move(
        cls, name: str, source: Tensor, target: Tensor, names: tuple[str, ...] = ()
    ) -> Convert:
        """Return a move of equal types: a copy, or a change of layout."""
        integer = source.dtype != "float32"
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="move",
            rounding=Rounding.SINGLE_UP if integer else Rounding.FLOAT_RNE,
            values=tuple(identity_scalars(source.dtype).values()),
        )  # fmt: skip

    @classmethod
    def quantize(
        cls,
        name: str,
        source: Tensor,
        target: Tensor,
        names: tuple[str, ...] = (),
        rounding: Rounding = Rounding.FLOAT_RNE,
    ) -> Convert:
        """Return QuantizeLinear of float32 `source` by the target's quantisation.

        `rounding`: FLOAT_RNE (ONNX) or HALF_AWAY_F64 (TFLite).
        """
        quant = quant_of(target)
        scalars = quantize_scalars(target.dtype, float32_bits(quant.scale), quant.zero_point)
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="quantize",
            rounding=rounding,
            values=tuple(scalars.values()),
        )  # fmt: skip

    @classmethod
    def dequantize(
        cls, name: str, source: Tensor, target: Tensor, names: tuple[str, ...] = ()
    ) -> Convert:
        """Return DequantizeLinear of `source` by its quantisation."""
        quant = quant_of(source)
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="dequantize",
            rounding=Rounding.FLOAT_RNE,
            values=tuple(dequantize_scalars(float32_bits(quant.scale), quant.zero_point).values()),
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
        return cls(
            name=name, inputs=(source,), outputs=(target,), source_names=names, mode="rescale",
            rounding=profile.rounding, values=rescale_values(source, target, profile, clamp),
        )  # fmt: skip

    @property
    def rounding_mode(self) -> Rounding:
        """Return the rounding mode."""
        return self.rounding

    @property
    def fills(self) -> tuple[slice, slice, slice] | None:
        """Return its place in the output."""
        if self.place is None:
            return None
        rows, cols, chans = (slice(p, p + n) for p, n in zip(self.place, self.inputs[0].hwc))
        return rows, cols, chans

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return the rounding mode."""
        return (int(self.rounding),)

    @property
    def rows(self) -> int:
        """Return how many rows the kernel makes."""
        return self.shape().extent[0]

    def describe(self) -> str:
        """Return the mode, and the place."""
        return self.mode if self.place is None else f"{self.mode} to {self.place}"

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        target = border_of(self.outputs[0])
        if self.place is None:
            source = same_extent(border_of(self.inputs[0]), target)
            return VectorShape((source,), target, self.outputs[0].hwc)
        source = same_extent(border_of(self.inputs[0]), border_of(self.inputs[0]))
        return VectorShape((source,), target, self.inputs[0].hwc, 0, *self.place)

    def scalars(self) -> dict[str, int]:
        """Return the scalars of CONVERT."""
        return dict(zip(CONVERT_SCALARS, self.values, strict=True))

    def emit(self, step: VectorStep) -> Instr:
        """Return the CONVERT of a step."""
        source, target = step.inputs[0], step.output
        return convert(
            target.box,
            (source.border, source.address, source.tile),
            (target.border, target.address, target.tile),
            {name: param(name) for name in CONVERT_SCALARS},
            int(self.rounding), wait=step.wait, post=step.post,
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the converted tensor; with a place, the part of the output that it fills."""
        source, target = self.inputs[0], self.outputs[0]
        x = nhwc_of(inputs[0], source)
        if self.mode == "quantize":
            quant, ties_even = quant_of(target), self.rounding == Rounding.FLOAT_RNE
            x = reference.quantize(x, quant.scale, quant.zero_point, target.dtype, ties_even)
        elif self.mode == "dequantize":
            quant = quant_of(source)
            x = reference.dequantize(x, quant.scale, quant.zero_point)
        elif self.mode == "rescale":
            x = rescale_reference(x, source, target, self.rounding, self.values)
        if self.place is not None:
            return x.astype(target.dtype)
        return laid_out(x.astype(target.dtype), target)


def _layout(source: CaseSource, allowed: bool) -> str:
    return source.pick("NHWC", "NCHW") if allowed else "NHWC"


def rescale_values(
    source: Tensor, target: Tensor, profile: Profile, clamp: tuple[int, int] | None = None
) -> tuple[int, ...]:
    """Return the CONVERT scalars that rescale `source` to `target`'s quantisation."""
    low, high = clamp or INTEGER_LIMITS[target.dtype]
    a, b = quant_of(source), quant_of(target)
    if profile.rounding == Rounding.FLOAT_RNE:
        scales = float32_bits(a.scale), float32_bits(b.scale)
        return a.zero_point, scales[0], 0, scales[1], b.zero_point, low, high
    ratio = scaling(profile.rounding, np.array([real_scale(source) / real_scale(target)]))
    multiplier, shift = int(ratio.multiplier[0]), int(ratio.shift[0])
    return a.zero_point, multiplier, shift, 0, b.zero_point, low, high


def rescale_reference(
    x: NDArray[np.generic], source: Tensor, target: Tensor, mode: Rounding, values: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return integer `x` rescaled in a rounding mode, from the tensors' own scales."""
    centred = x.astype(np.int64) - quant_of(source).zero_point
    scales = real_scale(source), real_scale(target)
    offset = quant_of(target).zero_point, values[-2], values[-1]
    return reference.convert(centred, scales, mode.name, offset)
