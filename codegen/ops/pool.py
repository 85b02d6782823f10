"""Max and average pooling, global pooling included."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.borders import DTYPE_CODE, INTEGER_LIMITS, border_of
from codegen.expr import param
from codegen.kernel import Instr, instr
from codegen.ops.base import Arrays, Constraint, Operator
from codegen.ops.border_scalars import real_scale
from codegen.ops.vector import VectorOperator, operand_fields, window_fields
from codegen.profiles import Profile, Scaling, scaling
from codegen.quantization import Requant
from codegen.schedule import Schedule
from codegen.tiles import Axis
from codegen.vector_kernel import Source, VectorShape, VectorStep
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Input and output must be integer types that the NPU has."""
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.dtype not in npu.capabilities.activation_types:
            return tensor.dtype
    return None


def _window(operator: Operator, npu: NpuConfig) -> str | None:
    """Windows and strides must be 1..255, and padding smaller than the window."""
    del npu
    assert isinstance(operator, Pool)
    for axis in operator.axes():
        end = (axis.out - 1) * axis.stride + axis.kernel - axis.pad - axis.size
        if max(axis.kernel, axis.stride) > 255 or max(axis.pad, end) >= axis.kernel:
            return f"window {axis.kernel}, stride {axis.stride}, padding {axis.pad} and {end}"
    return None


def _layout(operator: Operator, npu: NpuConfig) -> str | None:
    """Input and output must be NHWC."""
    del npu
    planar = [t.name for t in (*operator.inputs, *operator.outputs) if border_of(t).planar]
    return ", ".join(planar) or None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pool(VectorOperator):
    """A window slides over each channel. Pads are (top, left); the rest follows from the shapes."""

    window: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int] = (0, 0)

    constraints: ClassVar[tuple[Constraint, ...]] = (_types, _window, _layout)

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

    def windows(self, x: NDArray[np.int64], fill: int) -> NDArray[np.int64]:
        """Return all windows of (H, W, C): (out_h, out_w, C, taps), `fill` in the padding."""
        rows, cols = self.axes()
        bottom = max(0, (rows.out - 1) * rows.stride + rows.kernel - rows.pad - rows.size)
        right = max(0, (cols.out - 1) * cols.stride + cols.kernel - cols.pad - cols.size)
        pads = ((rows.pad, bottom), (cols.pad, right), (0, 0))
        padded = np.pad(x, pads, constant_values=fill)
        view = np.lib.stride_tricks.sliding_window_view(padded, self.window, axis=(0, 1))
        view = view[:: rows.stride, :: cols.stride][: rows.out, : cols.out]
        return view.reshape(*view.shape[:3], -1)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MaxPool(Pool):
    """The largest value of each window; padding never wins. Input and output share a scale."""

    clamp: tuple[int, int]

    kind: ClassVar[str] = "max_pool"

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
        result = np.clip(self.windows(x, low).max(axis=-1), *self.clamp)
        return result.astype(target.dtype).reshape(target.shape)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AveragePool(Pool):
    """requantise(sum of (x - zx)) by a scale for the window's count of elements.

    `scalings[i]` serves windows of kh * kw - i elements; `include_pad` counts padding as elements
    of value 0.
    """

    requant: Requant
    in_zero_point: int
    include_pad: bool = False

    kind: ClassVar[str] = "average_pool"

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
        sums = self.windows(x, 0).sum(axis=-1)
        counts = self.windows(np.ones_like(x), 0).sum(axis=-1)
        taps = self.window[0] * self.window[1]
        index = np.zeros_like(counts) if self.include_pad else taps - counts
        s = self.requant.scaling
        picked = Requant(
            Scaling(s.rounding, s.multiplier[index], s.shift[index], s.scale[index]),
            self.requant.zero_point, self.requant.low, self.requant.high, target.dtype,
        )  # fmt: skip
        return picked.reference(sums).reshape(target.shape)


def count_scaling(
    profile: Profile, scale_in: float, scale_out: float, taps: int, fewest: int
) -> Scaling:
    """Return the scaling of sums of `taps`, `taps` - 1, ... down to `fewest` elements.

    The real factor is scale_in / (count * scale_out); TFLite MEAN and onnxruntime agree on it.
    """
    counts = np.arange(taps, fewest - 1, -1)
    if profile.rounding == Rounding.FLOAT_RNE:
        ratio = np.float32(scale_in) / np.float32(scale_out)
        return scaling(profile.rounding, (ratio / counts.astype(np.float32)).astype(np.float64))
    return scaling(profile.rounding, scale_in / (counts * scale_out))


def average_pool(pool: dict[str, object], profile: Profile, clamp: tuple[int, int]) -> AveragePool:
    """Build an average pool from its keyword arguments, scaled as the profile says."""
    fields = dict(pool)
    source, target = fields["inputs"][0], fields["outputs"][0]  # type: ignore[index]
    probe = MaxPool(clamp=clamp, **{k: v for k, v in fields.items() if k != "include_pad"})  # type: ignore[arg-type]
    fewest = int(probe.windows(np.ones(source.hwc, np.int64), 0).sum(axis=-1).min())
    taps = probe.passes
    if fields.get("include_pad"):
        fewest = taps
    scaling_ = count_scaling(profile, real_scale(source), real_scale(target), taps, fewest)
    requant = Requant(scaling_, target.quant.zero_point, *clamp, target.dtype)
    return AveragePool(
        requant=requant, in_zero_point=source.quant.zero_point, **fields  # type: ignore[arg-type]
    )
