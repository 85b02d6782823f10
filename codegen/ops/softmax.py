"""Softmax along the channels: exact, or by the integer shifts of TVM's qnn.softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference, vector_schedule
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import DTYPE_CODE, border_of
from codegen.expr import param
from codegen.graph import QuantParams, Tensor, quant_of
from codegen.kernel import Instr, instr
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import (
    channels_last,
    extents,
    integer_types,
    rounding_available,
    same_shape,
)
from codegen.ops.draw import CONVERTIBLE_MODES, CaseSource
from codegen.ops.vector import VectorOperator, operand_fields, span_sizes
from codegen.profiles import FLOAT_MODES, Scaling, scaling
from codegen.quantization import nhwc_of, real_scale
from codegen.schedule import Schedule
from codegen.space import Knob
from codegen.vector_kernel import VectorShape, VectorStep, same_extent
from runtime_sim.cost import SOFTMAX_PASSES
from runtime_sim.isa.fields import Rounding, SoftmaxAlgorithm
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import float32_bits, shiftmax_fits

SHIFTMAX_SCALE = 1 / 128
"""Scale of the shares before they are brought to the output's."""
TFLITE_OUTPUT = QuantParams(1 / 256, -128)
_SCALARS = ("in_scale", "out_mult", "out_shift", "out_zp", "lo", "hi")


def _sums(operator: Operator, npu: NpuConfig) -> str | None:
    """The sums of a shiftmax must be above 0 and fit int32, whatever the values."""
    del npu
    assert isinstance(operator, Softmax)
    channels, inverse = operator.outputs[0].hwc[2], operator.scaled[0]
    if operator.algorithm == SoftmaxAlgorithm.EXACT or shiftmax_fits(inverse, channels):
        return None
    return f"{channels} channels of scale 1/{inverse}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Softmax(VectorOperator):
    """y = requantise(softmax(x)) along the channels of each pixel.

    `algorithm`: EXACT takes exponentials in float64 and rounds half to even; SHIFTMAX is I-ViT's
    (arXiv 2207.01405) as TVM lowers qnn.softmax, requantised by `rounding`. `scaled`: in_scale,
    out_mult and out_shift of SOFTMAX. `clamp`: the output's integer limits.
    """

    algorithm: SoftmaxAlgorithm
    rounding: Rounding
    scaled: tuple[int, int, int]
    clamp: tuple[int, int]

    kind: ClassVar[str] = "softmax"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, same_shape, channels_last, extents, rounding_available, _sums,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Softmax:
        """Return a random softmax, by shifts where their sums fit."""
        x = source.image()
        dtype = source.pick("int8", "uint8")
        quant = source.quant(dtype, 1 / 128)
        if dtype == "int8" and source.chance(0.5):
            quant = TFLITE_OUTPUT
        y = Tensor(source.name("t"), x.shape, dtype, quant)
        name, clamp = source.name(cls.kind), source.clamp(dtype)
        modes = [mode for mode in CONVERTIBLE_MODES if mode not in FLOAT_MODES]
        drawn = shiftmax(name, x, y, source.pick(*modes), clamp)
        if source.chance(0.4) or not shiftmax_fits(drawn.scaled[0], x.hwc[2]):
            return exact_softmax(name, x, y, clamp)
        return drawn

    @property
    def rounding_mode(self) -> Rounding:
        """Return the rounding mode."""
        return self.rounding

    @property
    def passes(self) -> int:
        """Return vector passes per output element."""
        return SOFTMAX_PASSES

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return algorithm and rounding."""
        return (int(self.algorithm), int(self.rounding))

    def describe(self) -> str:
        """Return the algorithm."""
        return self.algorithm.name.lower()

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        target = border_of(self.outputs[0])
        source = same_extent(border_of(self.inputs[0]), target)
        return VectorShape((source,), target, self.outputs[0].hwc)

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return the legal schedules that keep a pixel whole, best estimate first."""
        found = vector_schedule.schedules(self.shape(), self.passes, npu)
        return [schedule for schedule in found if self._keeps_pixels_whole(schedule)]

    def knobs(self, npu: NpuConfig) -> tuple[Knob, ...]:
        """Return the knobs of a vector operator; tiles have all channels."""
        whole = Knob("tile_oc", (self.outputs[0].hwc[2],))
        found = vector_schedule.knobs(self.shape(), npu)
        return tuple(whole if knob.name == whole.name else knob for knob in found)

    def is_legal(self, schedule: Schedule, npu: NpuConfig) -> bool:
        """Return whether the kernel of a schedule fits `npu` and its tiles have all channels."""
        fits = vector_schedule.is_legal(self.shape(), schedule, npu)
        return fits and self._keeps_pixels_whole(schedule)

    def scalars(self) -> dict[str, int]:
        """Return scales, zero point and clamp."""
        values = (*self.scaled, quant_of(self.outputs[0]).zero_point, *self.clamp)
        return dict(zip(_SCALARS, values, strict=True))

    def emit(self, step: VectorStep) -> Instr:
        """Return the SOFTMAX of a step."""
        source, out = step.inputs[0], step.output
        return instr(
            "SOFTMAX", wait=step.wait, post=step.post, algorithm=int(self.algorithm),
            **span_sizes(out.box.rows, out.box.cols, out.box.chans),
            **operand_fields("in", source), **operand_fields("out", out),
            in_type=DTYPE_CODE[source.border.dtype], out_type=DTYPE_CODE[out.border.dtype],
            rounding=int(self.rounding), **{name: param(name) for name in _SCALARS},
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the softmax of each pixel, from the tensors' own scales."""
        source, target = self.inputs[0], self.outputs[0]
        x = nhwc_of(inputs[0], source).astype(np.int64)
        scales, offset = (
            (real_scale(source), real_scale(target)),
            (quant_of(target).zero_point, *self.clamp),
        )
        if self.algorithm == SoftmaxAlgorithm.EXACT:
            result = reference.softmax(x, scales, offset)
        else:
            result = reference.shiftmax(x, scales, self.rounding.name, offset)
        return result.astype(target.dtype).reshape(target.shape)

    def _keeps_pixels_whole(self, schedule: Schedule) -> bool:
        return schedule.tile_oc == self.outputs[0].hwc[2]


def exact_softmax(
    name: str,
    source: Tensor,
    target: Tensor,
    clamp: tuple[int, int] | None = None,
    names: tuple[str, ...] = (),
) -> Softmax:
    """Return the softmax of real exponentials, rounded half to even (TFLite, ONNX)."""
    return Softmax(
        name=name, inputs=(source,), outputs=(target,), source_names=names,
        algorithm=SoftmaxAlgorithm.EXACT, rounding=Rounding.FLOAT_RNE,
        scaled=(float32_bits(real_scale(source)), float32_bits(real_scale(target)), 0),
        clamp=clamp or INTEGER_LIMITS[target.dtype],
    )  # fmt: skip


def shiftmax(
    name: str,
    source: Tensor,
    target: Tensor,
    rounding: Rounding,
    clamp: tuple[int, int] | None = None,
    names: tuple[str, ...] = (),
) -> Softmax:
    """Return the softmax by integer shifts, requantised in a fixed-point mode (Relay)."""
    scaled = result_scaling(target, rounding)
    constants = int(scaled.multiplier[0]), int(scaled.shift[0])
    return Softmax(
        name=name, inputs=(source,), outputs=(target,), source_names=names,
        algorithm=SoftmaxAlgorithm.SHIFTMAX, rounding=rounding,
        scaled=(inverse_scale(source), *constants),
        clamp=clamp or INTEGER_LIMITS[target.dtype],
    )  # fmt: skip


def result_scaling(target: Tensor, rounding: Rounding) -> Scaling:
    """Return the scaling from shares of 1/128 to a tensor's scale."""
    return scaling(rounding, np.array([SHIFTMAX_SCALE / real_scale(target)]))


def inverse_scale(tensor: Tensor) -> int:
    """Return 1 / scale in float32, rounded half away from zero: one unit of the exponent."""
    inverse = float(np.float32(1) / np.float32(real_scale(tensor)))
    return int(min(inverse + 0.5, 2.0**31 - 1))
