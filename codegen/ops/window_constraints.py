"""Constraints of the operators that slide weights over their input."""

from __future__ import annotations

import numpy as np

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import QuantParams
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import (
    extents,
    padding_sizes,
    rounding_available,
    unavailable_scale,
    window_sizes,
)
from codegen.ops.window import WindowOperator
from runtime_sim.npu import NpuConfig

ACC_LIMIT = (1 << 31) - 1
_NONE = QuantParams(0.0, 1 << 20)


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Activation and weight types must be ones that the NPU has."""
    assert isinstance(operator, WindowOperator)
    capabilities = npu.capabilities
    for dtype in (operator.a_type, operator.requant.dtype):
        if dtype not in capabilities.activation_types:
            return f"{dtype} activations"
    weight = operator.weight.dtype.name
    return None if weight in capabilities.weight_types else f"{weight} weights"


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
    if np.any(values != 0) and not npu.capabilities.asymmetric_weights:
        return f"zero point {int(values[values != 0][0])}"
    if len(values) > 1 and not npu.capabilities.per_channel_zero_points:
        return "a zero point per channel"
    return None


def _border(operator: Operator, npu: NpuConfig) -> str | None:
    """A float32 input or output must have the zero point that the operator computes with."""
    del npu
    assert isinstance(operator, WindowOperator)
    sides = (
        (operator.inputs[0], operator.in_zero_point),
        (operator.outputs[0], operator.requant.zero_point),
    )
    for tensor, zero_point in sides:
        if tensor.dtype == "float32" and (tensor.quant or _NONE).zero_point != zero_point:
            return f"{tensor.quant} and {zero_point}"
    return None


def _scales(operator: Operator, npu: NpuConfig) -> str | None:
    """Scales must be ones that the NPU has: per channel, any value or powers of two."""
    assert isinstance(operator, WindowOperator)
    return unavailable_scale(operator.requant.scaling, npu)


def _accumulator(operator: Operator, npu: NpuConfig) -> str | None:
    """The accumulator must hold the largest possible sum for any activations and weights of their
    types: 2^31 - 1."""
    del npu
    assert isinstance(operator, WindowOperator)
    low, high = INTEGER_LIMITS[operator.a_type]
    reach = max(high - operator.in_zero_point, operator.in_zero_point - low)
    low_w, high_w = INTEGER_LIMITS[operator.weight.dtype.name]
    zero_points = np.unique(operator.weight_zero_point)
    widest = max(high_w - int(zero_points[0]), int(zero_points[0]) - low_w)
    if len(zero_points) > 1:
        widest = high_w - low_w
    bound = widest * reach * operator.shape().depth
    return str(bound) if bound > ACC_LIMIT else None


CONSTRAINTS: tuple[Constraint, ...] = (
    _types, _border, _activation_zero_point, _weight_zero_points, _scales, window_sizes,
    padding_sizes, extents, _accumulator, rounding_available,
)  # fmt: skip
