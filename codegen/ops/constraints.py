"""Constraints that several operators share.

Each predicate's docstring is the rule that users read; it returns the value that breaks it.
"""

from __future__ import annotations

import numpy as np

from codegen.borders import border_of
from codegen.ops.base import Operator
from codegen.profiles import Scaling
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig

FIELD_MAX = 65535
WINDOW_MAX = 255


def integer_types(operator: Operator, npu: NpuConfig) -> str | None:
    """Inputs and outputs must be integer types that the NPU has."""
    for tensor in operator.tensors:
        if tensor.dtype not in npu.capabilities.activation_types:
            return f"{tensor.dtype} {tensor.name}"
    return None


def channels_last(operator: Operator, npu: NpuConfig) -> str | None:
    """Inputs and outputs must be NHWC."""
    del npu
    planar = [tensor.name for tensor in operator.tensors if border_of(tensor).planar]
    return f"NCHW {', '.join(planar)}" if planar else None


def same_scale(operator: Operator, npu: NpuConfig) -> str | None:
    """Input and output must have one type, scale and zero point."""
    del npu
    source, target = operator.inputs[0], operator.outputs[0]
    if source.dtype == target.dtype and source.quant == target.quant:
        return None
    return f"{source.dtype} {source.quant} and {target.dtype} {target.quant}"


def same_shape(operator: Operator, npu: NpuConfig) -> str | None:
    """Input and output must have one shape."""
    del npu
    source, target = operator.inputs[0], operator.outputs[0]
    return None if source.hwc == target.hwc else f"{source.hwc} and {target.hwc}"


def extents(operator: Operator, npu: NpuConfig) -> str | None:
    """Rows, columns and channels must be 1..65535."""
    del npu
    for tensor in operator.tensors:
        if not 1 <= min(tensor.hwc) <= max(tensor.hwc) <= FIELD_MAX:
            return f"{'x'.join(map(str, tensor.hwc))} {tensor.name}"
    return None


def rounding_available(operator: Operator, npu: NpuConfig) -> str | None:
    """The rounding mode must be one that the NPU has: FLOAT_RNE and HALF_AWAY_F64 need a float
    requantiser."""
    mode = operator.rounding_mode
    needs_float = mode in (Rounding.FLOAT_RNE, Rounding.HALF_AWAY_F64)
    lacking = mode is not None and needs_float and not npu.capabilities.float_requantizer
    return mode.name if mode is not None and lacking else None


def rounding_defined(operator: Operator, npu: NpuConfig) -> str | None:
    """The rounding mode must be defined between integers: HALF_AWAY_F64 is not."""
    del npu
    mode = operator.rounding_mode
    return mode.name if mode == Rounding.HALF_AWAY_F64 else None


def window_sizes(operator: Operator, npu: NpuConfig) -> str | None:
    """Kernel, stride and dilation must be 1..255."""
    del npu
    for axis in operator.axes():
        values = axis.kernel, axis.stride, axis.dilation
        if not 1 <= min(values) <= max(values) <= WINDOW_MAX:
            return f"kernel {axis.kernel}, stride {axis.stride}, dilation {axis.dilation}"
    return None


def padding_sizes(operator: Operator, npu: NpuConfig) -> str | None:
    """Padding must be 0..255 and smaller than the dilated kernel."""
    del npu
    for axis in operator.axes():
        after = (axis.out - 1) * axis.stride + axis.reach - axis.pad - axis.size
        most = max(axis.pad, after)
        if axis.pad < 0 or most >= axis.reach or most > WINDOW_MAX:
            return f"{axis.pad} before and {max(after, 0)} after, dilated kernel {axis.reach}"
    return None


def unavailable_scale(scaling: Scaling, npu: NpuConfig) -> str | None:
    """Return what of a scaling the NPU does not have: scales per channel, or of any value."""
    if not npu.capabilities.per_channel_scales and len(np.unique(scaling.scale)) > 1:
        return "a scale per channel"
    mantissa = np.frexp(np.asarray(scaling.scale, np.float64))[0]
    if npu.capabilities.power_of_two_scales and np.any((mantissa != 0.5) & (mantissa != 0)):
        return "a scale that is not a power of two"
    return None
