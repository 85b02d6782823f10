"""Max and average pooling, global pooling included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import DTYPE_CODE, border_of
from codegen.expr import param
from codegen.graph import Tensor, quant_of
from codegen.kernel import Instr, instr
from codegen.ops.base import Arrays, Constraint
from codegen.ops.constraints import (
    channels_last,
    extents,
    integer_types,
    padding_sizes,
    rounding_available,
    same_scale,
    window_sizes,
)
from codegen.ops.draw import CaseSource
from codegen.ops.vector import VectorOperator, operand_fields, window_fields
from codegen.ops.window import slide
from codegen.profiles import Profile, Scaling, scaling
from codegen.quantization import Requant, real_scale
from codegen.schedule import Schedule
from codegen.tiles import Axis
from codegen.vector_kernel import Source, VectorShape, VectorStep
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pool(VectorOperator):
    """A window slides over each channel. Pads are (top, left); the rest follows from the shapes."""

    window: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int] = (0, 0)

    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, window_sizes, padding_sizes, channels_last, extents,
    )  # fmt: skip

    def axes(self) -> tuple[Axis, Axis]:
        """Return the row and column axes."""
        (height, width, _), (out_h, out_w, _) = self.inputs[0].hwc, self.outputs[0].hwc
        (kh, kw), (sh, sw), (top, left) = self.window, self.strides, self.padding
        return Axis(height, out_h, kh, sh, 1, top), Axis(width, out_w, kw, sw, 1, left)

    @property
    def passes(self) -> int:
        """Return vector passes per output element."""
        return self.window[0] * self.window[1]

    def describe(self) -> str:
        """Return window and strides."""
        return "{}x{} s{}x{}".format(*self.window, *self.strides)

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        source = Source(border_of(self.inputs[0]), *self.axes())
        return VectorShape((source,), border_of(self.outputs[0]), self.outputs[0].hwc)

    def taps(self, x: NDArray[np.int64], fill: int) -> NDArray[np.int64]:
        """Return (taps, out_h, out_w, C): what each position of the window sees of (H, W, C)."""
        rows, cols = self.axes()
        return reference.taps(x, slide(rows), slide(cols), fill)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MaxPool(Pool):
    """The largest value of each window; padding never wins. Input and output share a scale."""

    clamp: tuple[int, int]

    kind: ClassVar[str] = "max_pool"
    constraints: ClassVar[tuple[Constraint, ...]] = (*Pool.constraints, same_scale)

    @classmethod
    def draw(cls, source: CaseSource) -> MaxPool:
        """Return a random maximum, or a global one."""
        x = source.image()
        fields, shape = draw_pool(source, x)
        result = replace(source.tensor(shape, x.dtype), quant=x.quant)
        clamp = source.clamp(x.dtype)
        return cls(name=source.name(cls.kind), outputs=(result,), clamp=clamp, **fields)

    def scalars(self) -> dict[str, int]:
        """Return the clamp."""
        return {"lo": self.clamp[0], "hi": self.clamp[1]}

    def emit(self, step: VectorStep) -> Instr:
        """Return the MAXPOOL of a step."""
        source = step.inputs[0]
        return instr(
            "MAXPOOL", wait=step.wait, post=step.post, type=DTYPE_CODE[source.border.dtype],
            **operand_fields("in", source), **operand_fields("out", step.output),
            **window_fields(source, step.output, *self.axes()), lo=param("lo"), hi=param("hi"),
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the maximum of each window."""
        source, target = self.inputs[0], self.outputs[0]
        low, _ = INTEGER_LIMITS[source.dtype]
        x = inputs[0].reshape(source.hwc).astype(np.int64)
        result = np.clip(self.taps(x, low).max(axis=0), *self.clamp)
        return result.astype(target.dtype).reshape(target.shape)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AveragePool(Pool):
    """requantise(sum of (x - zx)) by a scale for the window's count of elements.

    `requant.scaling` has one entry per count: entry i serves windows of kh * kw - i elements.
    `include_pad` counts padding as elements of value 0.
    """

    requant: Requant
    in_zero_point: int
    include_pad: bool = False

    kind: ClassVar[str] = "average_pool"
    constraints: ClassVar[tuple[Constraint, ...]] = (*Pool.constraints, rounding_available)

    @classmethod
    def draw(cls, source: CaseSource) -> AveragePool:
        """Return a random average, padding counted or not, or a global one."""
        x = source.image()
        fields, shape = draw_pool(source, x)
        result = source.tensor(shape, None, real_scale(x) / 2)
        fields |= {"name": source.name(cls.kind), "outputs": (result,)}
        fields |= {"include_pad": source.chance(0.4)}
        return average_pool(fields, source.profile(), source.clamp(result.dtype))

    @property
    def rounding_mode(self) -> Rounding:
        """Return the rounding mode of the requantisation."""
        return self.requant.scaling.rounding

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return rounding and padding rule."""
        return (int(self.requant.scaling.rounding), self.include_pad)

    def shape(self) -> VectorShape:
        """Return what tiling depends on: the records stay in SPM."""
        base = Pool.shape(self)
        records = len(self.requant.scaling.multiplier)
        return VectorShape(base.sources, base.target, base.extent, 12 * records)

    def scalars(self) -> dict[str, int]:
        """Return zero points and clamps."""
        requant = self.requant
        values = {"in_zp": self.in_zero_point, "out_zp": requant.zero_point}
        return values | {"lo": requant.low, "hi": requant.high}

    def constants(self, schedule: Schedule, npu: NpuConfig) -> Arrays:
        """Return the records, one per count of elements from the whole window down."""
        del schedule, npu
        scaling_ = self.requant.scaling
        return {"params": scaling_.records(np.zeros(len(scaling_.multiplier), np.int32))}

    def emit(self, step: VectorStep) -> Instr:
        """Return the AVGPOOL of a step."""
        source, target = step.inputs[0], step.output
        return instr(
            "AVGPOOL", wait=step.wait, post=step.post, in_type=DTYPE_CODE[source.border.dtype],
            out_type=DTYPE_CODE[target.border.dtype],
            **operand_fields("in", source), **operand_fields("out", target),
            **window_fields(source, target, *self.axes()), include_pad=int(self.include_pad),
            params=step.params, rounding=int(self.requant.scaling.rounding),
            **{name: param(name) for name in self.scalars()},
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the average of each window."""
        source, target = self.inputs[0], self.outputs[0]
        x = inputs[0].reshape(source.hwc).astype(np.int64) - self.in_zero_point
        sums = self.taps(x, 0).sum(axis=0)
        counts = self.taps(np.ones_like(x), 0).sum(axis=0)
        index = np.zeros_like(counts) if self.include_pad else self.passes - counts
        scaling_, offset = self.requant.scaling, self.requant.offset
        rounding, scale = scaling_.rounding.name, scaling_.scale[index]
        result = reference.requantize(sums, rounding, scale, offset)
        return result.astype(target.dtype).reshape(target.shape)


def count_scaling(
    profile: Profile, scale_in: float, scale_out: float, taps: int, fewest: int
) -> Scaling:
    """Return the scaling of sums of `taps`, `taps` - 1, ... down to `fewest` elements.

    The real factor is scale_in / (count * scale_out); TFLite MEAN and onnxruntime agree on it.
    """
    counts = np.arange(taps, fewest - 1, -1)
    if profile.rounding == Rounding.FLOAT_RNE:
        ratio = np.float32(scale_in) / np.float32(scale_out)
        real: NDArray[np.float64] = (ratio / counts.astype(np.float32)).astype(np.float64)
    else:
        real = np.asarray(scale_in / (counts * scale_out), np.float64)
    return scaling(profile.rounding, real)


def average_pool(pool: Mapping[str, Any], profile: Profile, clamp: tuple[int, int]) -> AveragePool:
    """Build an average pool from its fields but requant and in_zero_point, scaled by the profile.

    Raises GraphError if input or output has no quantisation.
    """
    source, target = pool["inputs"][0], pool["outputs"][0]
    scaling_ = count_scaling(profile, real_scale(source), real_scale(target), 1, 1)
    zero_point = quant_of(target).zero_point
    requant = Requant(scaling_, zero_point, *clamp, target.dtype)
    draft = AveragePool(requant=requant, in_zero_point=quant_of(source).zero_point, **pool)
    fewest = draft.passes
    if not draft.include_pad:
        present = draft.taps(np.ones((*source.hwc[:2], 1), np.int64), 0).sum(axis=0)
        fewest = max(1, int(present.min()))
    scales = real_scale(source), real_scale(target)
    counted = count_scaling(profile, *scales, draft.passes, fewest)
    return replace(draft, requant=replace(requant, scaling=counted))


def draw_pool(source: CaseSource, x: Tensor) -> tuple[dict[str, Any], tuple[int, int, int]]:
    """Return the fields of a random window over `x`, and the result's shape."""
    height, width, channels = x.hwc
    if source.chance(0.2):
        window = {"inputs": (x,), "window": (height, width), "strides": (1, 1)}
        return window, (1, 1, channels)
    rows, cols = source.axis(height, (1, 2, 2, 3, 3, 4, 5)), source.axis(width, (1, 2, 2, 3, 5))
    fields = {
        "inputs": (x,),
        "window": (rows.kernel, cols.kernel),
        "strides": (rows.stride, cols.stride),
        "padding": (rows.pad, cols.pad),
    }
    return fields, (rows.out, cols.out, channels)
