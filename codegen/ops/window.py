"""What convolution, depthwise convolution and dense layers share: constants, kernels, bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from codegen import conv_schedule, conv_space
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import border_of
from codegen.conv_plan import RECORD_BYTES, ConvShape
from codegen.convolution import ConvKernel
from codegen.graph import Tensor, quant_of
from codegen.kernel import Kernel
from codegen.ops.base import Arrays, Operator, Work, illegal_schedule, kernel_name
from codegen.ops.draw import CaseSource
from codegen.quantization import Requant, real_input, real_output
from codegen.reference import Slide
from codegen.schedule import Schedule
from codegen.space import Knob
from codegen.tiles import Axis
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import float32_bits


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WindowOperator(Operator):
    """An operator that slides weights over its input.

    `weight`: int8 or uint8, [oc][kh][kw][ic / groups] (OHWI). `bias`: int32 [oc].
    `weight_zero_point`: one value, or one per output channel. `in_zero_point` is the input's.
    """

    weight: NDArray[np.generic]
    bias: NDArray[np.int32]
    requant: Requant
    in_zero_point: int
    weight_zero_point: NDArray[np.int64]
    a_type: str = "int8"

    @abstractmethod
    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on."""

    def sliding(
        self, strides: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int],
        groups: int,
    ) -> ConvShape:  # fmt: skip
        """Return the shape of the weights' window with these steps and (top, left) pads."""
        source, target = border_of(self.inputs[0]), border_of(self.outputs[0])
        _, kernel_h, kernel_w, _ = self.weight.shape
        (sh, sw), (top, left), (dh, dw) = strides, padding, dilation
        return ConvShape(
            source=source,
            target=target,
            rows=Axis(source.height, target.height, kernel_h, sh, dh, top),
            cols=Axis(source.width, target.width, kernel_w, sw, dw, left),
            groups=groups,
            mult=0,
            a_type=self.a_type,
            w_type=self.weight.dtype.name,
            out_type=self.requant.dtype,
            vector_zero_points=bool((self.weight_zero_point != self.weight_zero_point[0]).any()),
            rounding=int(self.requant.scaling.rounding),
        )

    @abstractmethod
    def sums(
        self, x: NDArray[np.int64], w: NDArray[np.int64], rows: Slide, cols: Slide
    ) -> NDArray[np.int64]:
        """Return the reference's sums of centred activations and weights, without bias."""

    @abstractmethod
    def array_cycles(self, npu: NpuConfig) -> int:
        """Return the array's cycles with its best micro-kernel, without fill and drain."""

    @abstractmethod
    def pack_weights(self, schedule: Schedule, npu: NpuConfig) -> NDArray[np.generic]:
        """Return the weights in the order the array reads them."""

    @property
    def rounding_mode(self) -> Rounding | None:
        """Return the rounding mode of the requantisation."""
        return self.requant.scaling.rounding

    def axes(self) -> tuple[Axis, ...]:
        """Return the row and column axes."""
        shape = self.shape()
        return shape.rows, shape.cols

    def signature(self) -> tuple[object, ...]:
        """Return the window shape."""
        return (self.kind, self.shape())

    def describe(self) -> str:
        """Return kernel, strides, pads, dilation and groups."""
        shape = self.shape()
        rows, cols = shape.rows, shape.cols
        text = f"{rows.kernel}x{cols.kernel} s{rows.stride}x{cols.stride}"
        text += f" p{rows.pad},{cols.pad} d{rows.dilation}x{cols.dilation}"
        return text + (f" groups {shape.groups}" if shape.groups > 1 else "")

    # --- lowering -------------------------------------------------------------------------------

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return the legal schedules, best estimate first."""
        return list(conv_schedule.schedules(self.shape(), npu))

    def knobs(self, npu: NpuConfig) -> tuple[Knob, ...]:
        """Return the knobs of a convolution."""
        return conv_space.knobs(self.shape(), npu)

    def reduced(self, schedule: Schedule) -> Schedule:
        """Return the schedule of the same stream whose knobs without effect have fixed values."""
        return conv_space.canonical(self.shape(), schedule)

    def is_legal(self, schedule: Schedule, npu: NpuConfig) -> bool:
        """Return whether the kernel of a schedule fits `npu`."""
        return conv_space.is_legal(self.shape(), schedule, npu)

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel of a legal schedule."""
        shape, given, schedule = self.shape(), schedule, self.canonical(schedule, npu)
        if not conv_space.is_legal(shape, schedule, npu):
            raise illegal_schedule(self, given, npu)
        name = kernel_name(self, schedule)
        return ConvKernel(shape, schedule).build(name, f"{self.kind} {self.describe()}")

    def scalars(self) -> dict[str, int]:
        """Return zero points and clamps, and those of border conversions."""
        zero_points = np.unique(self.weight_zero_point)
        values = {
            "in_zp": self.in_zero_point,
            "pad_value": self.in_zero_point,
            "w_zp": int(zero_points[0]) if len(zero_points) == 1 else 0,
            "out_zp": self.requant.zero_point,
            "lo": self.requant.low,
            "hi": self.requant.high,
        }
        for name, tensor in (("in_scale", self.inputs[0]), ("out_scale", self.outputs[0])):
            if tensor.dtype == "float32":
                values[name] = float32_bits(quant_of(tensor).scale)
        return values

    def constants(self, schedule: Schedule, npu: NpuConfig) -> Arrays:
        """Return packed weights, parameter records and per-channel zero points."""
        arrays: dict[str, NDArray[np.generic]] = {
            "weights": self.pack_weights(schedule, npu),
            "params": self.requant.scaling.records(self.bias),
        }
        if self.shape().vector_zero_points:
            arrays["zero_points"] = self.weight_zero_point.astype(self.weight.dtype)
        return arrays

    def work(self, npu: NpuConfig) -> Work:
        """Return whole array passes, vector passes and compulsory bytes in bursts."""
        shape, output = self.shape(), self.outputs[0]
        return Work(
            matrix_cycles=self.array_cycles(npu),
            vector_elements=self._vector_elements(),
            dram_bytes=_compulsory_bytes(shape, npu),
            macs=shape.rows.out * shape.cols.out * shape.depth * output.hwc[2],
        )

    def _vector_elements(self) -> int:
        shape = self.shape()
        total = results = shape.rows.out * shape.cols.out * shape.target.channels
        if shape.target.needs_convert(shape.out_type):
            total += results
        if shape.source.needs_convert(shape.a_type):
            pixels = shape.rows.elements_read * shape.cols.elements_read
            total += pixels * shape.source.channels
        return total

    # --- reference ------------------------------------------------------------------------------

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the output; see `codegen.reference`."""
        x = real_input(inputs[0], self.inputs[0], self.a_type)
        sums = self.centred_sums(x) + self.bias.astype(np.int64)
        return real_output(self.requant.reference(sums), self.outputs[0])

    def centred_sums(self, x: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the reference's sums of integer (H, W, C) activations, without bias."""
        zero_points = np.broadcast_to(self.weight_zero_point, (len(self.bias),))
        w = self.weight.astype(np.int64) - zero_points[:, None, None, None]
        rows, cols = self.axes()
        return self.sums(x - self.in_zero_point, w, slide(rows), slide(cols))


def slide(axis: Axis) -> Slide:
    """Return an axis as the reference takes it."""
    return Slide(axis.out, axis.kernel, axis.stride, axis.dilation, axis.pad)


def _compulsory_bytes(shape: ConvShape, npu: NpuConfig) -> int:
    burst = npu.memory_of(0).burst
    source, target = shape.source, shape.target
    pixels = shape.rows.elements_read * shape.cols.elements_read
    sizes = (
        pixels * source.channels * source.item,
        shape.depth * target.channels,
        RECORD_BYTES * target.channels,
        shape.rows.out * shape.cols.out * target.channels * target.item,
    )
    return sum(math.ceil(size / burst) * burst for size in sizes)


# --- cases --------------------------------------------------------------------------------------


W = TypeVar("W", bound="WindowOperator")


def draw_weights(
    source: CaseSource, x: Tensor, weight_shape: tuple[int, int, int, int], out: tuple[int, ...]
) -> dict[str, Any]:
    """Return the fields of a WindowOperator that reads `x` and makes (H, W, C) or (M, C) `out`.

    Bias and scale are only drafts: see `calibrated`.
    """
    channels = weight_shape[0]
    w_type = source.pick("int8", "int8", "uint8")
    low, high = INTEGER_LIMITS[w_type]
    zero_points = np.array([source.pick(0, source.integer(low, high))])
    if source.chance(0.25):
        zero_points = source.random.integers(low, high + 1, channels)
    result = source.tensor(out)
    return {
        "inputs": (source.border(x, source.border_in),),
        "outputs": (source.border(result, source.border_out),),
        "weight": source.integers(weight_shape, w_type),
        "bias": np.zeros(channels, np.int32),
        "requant": source.requant(np.ones(channels), quant_of(result), result.dtype),
        "in_zero_point": quant_of(x).zero_point,
        "weight_zero_point": zero_points,
        "a_type": x.dtype,
    }


def calibrated(source: CaseSource, draft: W) -> W:
    """Return the operator with a bias and scales that spread its results over their type."""
    images = source.integers((6, *draft.inputs[0].hwc), draft.a_type).astype(np.int64)
    sums = np.concatenate([draft.centred_sums(x).reshape(-1, len(draft.bias)) for x in images])
    spread = sums.std(axis=0) + np.abs(sums - sums.mean(axis=0)).mean() / 4 + 1
    offset = source.random.normal(0, 1, len(spread)) * spread / 2
    bias = np.clip(offset - sums.mean(axis=0), -(2**31), 2**31 - 1).astype(np.int32)
    quant, dtype = quant_of(draft.outputs[0]), draft.requant.dtype
    return replace(draft, bias=bias, requant=source.requant(spread, quant, dtype))


def draw_window(source: CaseSource, x: Tensor, kernels: tuple[int, ...]) -> dict[str, Any]:
    """Return strides, padding and dilation, and `axes`, of a window over `x`."""
    height, width, _ = x.hwc
    rows, cols = (replace(source.axis(n, kernels, (1, 1, 1, 2, 3))) for n in (height, width))
    return {
        "axes": (rows, cols),
        "strides": (rows.stride, cols.stride),
        "padding": (rows.pad, cols.pad),
        "dilation": (rows.dilation, cols.dilation),
    }
