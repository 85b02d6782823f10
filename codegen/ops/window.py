"""What convolution, depthwise convolution and dense layers share: constants, kernels, bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import conv_schedule
from codegen.borders import INTEGER_LIMITS
from codegen.conv_plan import ConvShape
from codegen.convolution import ConvKernel
from codegen.kernel import Kernel
from codegen.ops.base import Arrays, Constraint, Operator, Work, kernel_name
from codegen.ops.border_scalars import border_input_scalars, border_output_scalars
from codegen.quantization import Requant, real_input, real_output
from codegen.schedule import Schedule, ScheduleError
from codegen.tiles import Axis
from runtime_sim.npu import NpuConfig

ACC_LIMIT = (1 << 31) - 1


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

    work_kind: ClassVar[str] = "matrix"

    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on."""
        raise ScheduleError(f"{self.kind} has no window shape")

    # --- lowering -------------------------------------------------------------------------------

    def signature(self) -> tuple[object, ...]:
        """Return the window shape."""
        return (self.kind, self.shape())

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return the legal schedules, best estimate first."""
        return conv_schedule.schedules(self.shape(), npu)

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel of a legal schedule."""
        shape = self.shape()
        if not conv_schedule.is_legal(shape, schedule, npu):
            raise ScheduleError(
                f"{self.name}: schedule is not legal on {npu.name}", seen=schedule.describe()
            )
        name = kernel_name(self, schedule)
        return ConvKernel(shape, schedule, npu).build(name, f"{self.kind} {self.describe()}")

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
        values |= border_input_scalars(self.inputs[0], self.a_type)
        values |= border_output_scalars(self.outputs[0], self.requant.dtype)
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

    def pack_weights(self, schedule: Schedule, npu: NpuConfig) -> NDArray[np.generic]:
        """Return the weights in the order the array reads them, one piece per (channel, depth)."""
        shape, pieces = self.shape(), []
        for group in range(shape.groups):
            for start in range(0, shape.group_out, schedule.tile_oc):
                first = group * shape.group_out + start
                stop = first + min(schedule.tile_oc, shape.group_out - start)
                for depth in range(0, shape.group_in, schedule.tile_ic):
                    tile = self.weight[first:stop, :, :, depth : depth + schedule.tile_ic]
                    pieces += _column_blocks(tile, npu.array_cols)
        return np.concatenate(pieces)

    # --- bounds ---------------------------------------------------------------------------------

    def work(self, npu: NpuConfig) -> Work:
        """Return whole array passes, vector passes and compulsory bytes in bursts."""
        shape, output = self.shape(), self.outputs[0]
        pixels = shape.rows.out * shape.cols.out
        return Work(
            matrix_cycles=self.array_cycles(npu),
            vector_elements=self._vector_elements(),
            dram_bytes=_compulsory_bytes(shape, npu),
            macs=pixels * shape.depth * output.hwc[2],
        )

    def array_cycles(self, npu: NpuConfig) -> int:
        """Return the array's passes over all pixels, without fill and drain."""
        shape = self.shape()
        pixels = max(shape.rows.out * shape.cols.out, npu.array_rows)
        passes = shape.taps * -(-shape.group_in // npu.array_rows)
        if shape.group_in * 2 <= npu.array_rows:
            passes = -(-shape.depth // npu.array_rows)
        return shape.groups * -(-shape.group_out // npu.array_cols) * passes * pixels

    def _vector_elements(self) -> int:
        shape, total = self.shape(), self.outputs[0].elements
        if shape.source.needs_convert(shape.a_type):
            total += self.inputs[0].elements
        if shape.target.needs_convert(shape.out_type):
            total += self.outputs[0].elements
        return total

    # --- reference ------------------------------------------------------------------------------

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the output computed tap by tap in int64; see `codegen.arithmetic`."""
        shape = self.shape()
        x = real_input(inputs[0], self.inputs[0], self.a_type) - self.in_zero_point
        zero_points = np.broadcast_to(self.weight_zero_point, (len(self.bias),))
        w = self.weight.astype(np.int64) - zero_points[:, None, None, None]
        accumulator = np.zeros((shape.rows.out, shape.cols.out, len(self.bias)), np.int64)
        for ky in range(shape.rows.kernel):
            for kx in range(shape.cols.kernel):
                patch = _tap(x, shape, ky, kx)
                accumulator += self.multiply_tap(patch, w[:, ky, kx, :])
        result = self.requant.reference(accumulator + self.bias.astype(np.int64))
        return real_output(result, self.outputs[0])

    def multiply_tap(self, patch: NDArray[np.int64], w: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return one tap's products: patch (oh, ow, ic), w (oc, ic / groups)."""
        groups = self.shape().groups
        parts = np.split(patch, groups, axis=2)
        filters = np.split(w, groups, axis=0)
        return np.concatenate([p @ f.T for p, f in zip(parts, filters, strict=True)], axis=2)

    def describe(self) -> str:
        """Return kernel, strides, pads and groups."""
        shape = self.shape()
        rows, cols = shape.rows, shape.cols
        text = f"{rows.kernel}x{cols.kernel} s{rows.stride}x{cols.stride}"
        text += f" p{rows.pad},{cols.pad} d{rows.dilation}x{cols.dilation}"
        return text + (f" groups {shape.groups}" if shape.groups > 1 else "")


def _column_blocks(tile: NDArray[np.generic], columns: int) -> list[NDArray[np.generic]]:
    """Return a weight tile as blocks of array columns, each [kh][kw][ic][block]."""
    return [
        np.ascontiguousarray(tile[start : start + columns].transpose(1, 2, 3, 0)).reshape(-1)
        for start in range(0, len(tile), columns)
    ]


def _tap(x: NDArray[np.int64], shape: ConvShape, ky: int, kx: int) -> NDArray[np.int64]:
    """Return the input (zero point removed, so padding is 0) that one tap sees."""
    out = np.zeros((shape.rows.out, shape.cols.out, x.shape[2]), np.int64)
    ys = np.arange(shape.rows.out) * shape.rows.stride - shape.rows.pad + ky * shape.rows.dilation
    xs = np.arange(shape.cols.out) * shape.cols.stride - shape.cols.pad + kx * shape.cols.dilation
    rows = np.flatnonzero((ys >= 0) & (ys < x.shape[0]))
    cols = np.flatnonzero((xs >= 0) & (xs < x.shape[1]))
    out[np.ix_(rows, cols)] = x[np.ix_(ys[rows], xs[cols])]
    return out


def _compulsory_bytes(shape: ConvShape, npu: NpuConfig) -> int:
    burst = npu.memory_of(0).burst
    source, target = shape.source, shape.target
    pixels = elements_read(shape.rows) * elements_read(shape.cols)
    sizes = (
        pixels * source.channels * source.item,
        shape.depth * target.channels,
        12 * target.channels,
        target.height * target.width * target.channels * target.item,
    )
    return sum(math.ceil(size / burst) * burst for size in sizes)


def elements_read(axis: Axis) -> int:
    """Return how many of an axis' elements some window really reads."""
    taps = np.arange(axis.kernel) * axis.dilation - axis.pad
    touched = (np.arange(axis.out)[:, None] * axis.stride + taps).ravel()
    return len(np.unique(touched[(touched >= 0) & (touched < axis.size)]))


# --- constraints --------------------------------------------------------------------------------


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Activation and weight types must be ones that the NPU has."""
    assert isinstance(operator, WindowOperator)
    capabilities = npu.capabilities
    weight = operator.weight.dtype.name
    if operator.a_type not in capabilities.activation_types:
        return operator.a_type
    return None if weight in capabilities.weight_types else weight


def _activation_zero_point(operator: Operator, npu: NpuConfig) -> str | None:
    """Activations must be symmetric on an NPU without asymmetric activations."""
    assert isinstance(operator, WindowOperator)
    if npu.capabilities.asymmetric_activations or operator.in_zero_point == 0:
        return None
    return f"zero point {operator.in_zero_point}"


def _weight_zero_points(operator: Operator, npu: NpuConfig) -> str | None:
    """Weight zero points must be ones that the NPU has: none, one, or one per channel."""
    assert isinstance(operator, WindowOperator)
    values = np.unique(operator.weight_zero_point)
    if len(values) > 1 and not npu.capabilities.per_channel_zero_points:
        return "a zero point per channel"
    if np.any(values != 0) and not npu.capabilities.asymmetric_weights:
        return f"zero point {int(values[values != 0][0])}"
    return None


def _scales(operator: Operator, npu: NpuConfig) -> str | None:
    """Scales must be ones that the NPU has: per channel, any value or powers of two."""
    assert isinstance(operator, WindowOperator)
    scale = operator.requant.scaling.scale
    if not npu.capabilities.per_channel_scales and len(np.unique(scale)) > 1:
        return "a scale per channel"
    mantissa = np.frexp(np.asarray(scale, np.float64))[0]
    if npu.capabilities.power_of_two_scales and np.any((mantissa != 0.5) & (mantissa != 0)):
        return "a scale that is not a power of two"
    return None


def _padding(operator: Operator, npu: NpuConfig) -> str | None:
    """Padding must be smaller than the dilated kernel, and at most 255."""
    del npu
    assert isinstance(operator, WindowOperator)
    shape = operator.shape()
    for axis in (shape.rows, shape.cols):
        end = (axis.out - 1) * axis.stride + axis.reach - axis.pad - axis.size
        if max(axis.pad, end) >= axis.reach or max(axis.pad, end) > 255 or axis.pad < 0:
            return f"{axis.pad} before and {end} after a reach of {axis.reach}"
    return None


def _fields(operator: Operator, npu: NpuConfig) -> str | None:
    """Kernel, stride and dilation must be 1..255, extents and channels 1..65535."""
    del npu
    assert isinstance(operator, WindowOperator)
    shape = operator.shape()
    for axis in (shape.rows, shape.cols):
        if max(axis.kernel, axis.stride, axis.dilation) > 255:
            return f"kernel {axis.kernel}, stride {axis.stride}, dilation {axis.dilation}"
        if max(axis.size, axis.out) > 65535:
            return f"extent {max(axis.size, axis.out)}"
    channels = max(shape.source.channels, shape.target.channels)
    return f"{channels} channels" if channels > 65535 else None


def _accumulator(operator: Operator, npu: NpuConfig) -> str | None:
    """The accumulator must hold the largest possible sum with its bias: 2^31 - 1."""
    del npu
    assert isinstance(operator, WindowOperator)
    low, high = INTEGER_LIMITS[operator.a_type]
    reach = max(high - operator.in_zero_point, operator.in_zero_point - low)
    zero_points = np.broadcast_to(operator.weight_zero_point, (len(operator.bias),))
    weights = operator.weight.astype(np.int64) - zero_points[:, None, None, None]
    low_w, high_w = INTEGER_LIMITS[operator.weight.dtype.name]
    by_type = max(high_w - int(zero_points.min()), int(zero_points.max()) - low_w)
    actual = np.abs(weights).sum(axis=(1, 2, 3)) * reach + np.abs(operator.bias.astype(np.int64))
    bound = max(int(actual.max()), by_type * reach * operator.shape().depth)
    return str(bound) if bound > ACC_LIMIT else None


def _rounding(operator: Operator, npu: NpuConfig) -> str | None:
    """The rounding mode must be one that the NPU has: FLOAT_RNE needs a float requantiser."""
    assert isinstance(operator, WindowOperator)
    mode = operator.requant.scaling.rounding.name
    needs_float = mode in ("FLOAT_RNE", "HALF_AWAY_F64")
    return mode if needs_float and not npu.capabilities.float_requantizer else None


CONSTRAINTS: tuple[Constraint, ...] = (
    _types, _activation_zero_point, _weight_zero_points, _scales, _padding, _fields,
    _accumulator, _rounding,
)  # fmt: skip
