"""Requantisation attributes shared by the operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.arithmetic import finish, rescale, saturate32
from codegen.borders import INTEGER_LIMITS
from codegen.graph import QuantParams, Tensor
from codegen.profiles import Scaling


@dataclass(frozen=True, slots=True, eq=False)
class Requant:
    """How accumulators become `dtype`: clamp(round(a * scale) + zero_point, low, high)."""

    scaling: Scaling
    zero_point: int
    low: int
    high: int
    dtype: str

    def reference(self, accumulator: NDArray[np.int64]) -> NDArray[np.generic]:
        """Return the requantised values of int64 accumulators (last axis: channels)."""
        s = self.scaling
        rounded = rescale(
            saturate32(accumulator), s.rounding.name, s.multiplier, s.shift, s.scale
        )
        return finish(rounded, self.zero_point, self.low, self.high).astype(self.dtype)


def clamp_range(
    dtype: str, quant: QuantParams, real_low: float | None, real_high: float | None
) -> tuple[int, int]:
    """Return the integer clamp of a folded activation (relu: 0, None; relu6: 0, 6).

    A bound quantises as round half to even of bound / scale, plus the zero point, limited to the
    type: the ONNX QuantizeLinear of the bound itself, so that clamping before or after rounding
    gives the same value.
    """
    low, high = INTEGER_LIMITS[dtype]
    scale = np.float32(quant.scale)
    if real_low is not None and np.isfinite(real_low):
        bound = int(np.clip(np.rint(np.float32(real_low) / scale), -1e6, 1e6))
        low = min(max(low, bound + quant.zero_point), high)
    if real_high is not None and np.isfinite(real_high):
        bound = int(np.clip(np.rint(np.float32(real_high) / scale), -1e6, 1e6))
        high = max(min(high, bound + quant.zero_point), low)
    return low, high


def quantize_reference(
    real: NDArray[np.float32], quant: QuantParams, dtype: str
) -> NDArray[np.generic]:
    """Return QuantizeLinear of ONNX: rint(x / scale) + zero_point, saturated."""
    low, high = INTEGER_LIMITS[dtype]
    scaled = np.rint(real.astype(np.float32) / np.float32(quant.scale)).astype(np.float64)
    scaled = np.where(np.isnan(scaled), 0, scaled)
    return np.clip(scaled + quant.zero_point, low, high).astype(dtype)


def dequantize_reference(values: NDArray[np.generic], quant: QuantParams) -> NDArray[np.float32]:
    """Return DequantizeLinear of ONNX: float32(q - zero_point) * scale."""
    centred = (values.astype(np.int64) - quant.zero_point).astype(np.float32)
    return centred * np.float32(quant.scale)


def to_nhwc(values: NDArray[np.generic], tensor: Tensor) -> NDArray[np.generic]:
    """Return a tensor's array as (H, W, C), from the layout that it has in memory."""
    height, width, channels = tensor.hwc
    if tensor.layout == "NCHW":
        return values.reshape(channels, height, width).transpose(1, 2, 0)
    return values.reshape(height, width, channels)


def from_nhwc(values: NDArray[np.generic], tensor: Tensor) -> NDArray[np.generic]:
    """Return an (H, W, C) array in the tensor's own layout and shape."""
    if tensor.layout == "NCHW":
        height, width, channels = tensor.hwc
        return np.ascontiguousarray(values.transpose(2, 0, 1)).reshape(1, channels, height, width)
    return np.ascontiguousarray(values).reshape(tensor.shape)


def real_input(values: NDArray[np.generic], tensor: Tensor, dtype: str) -> NDArray[np.int64]:
    """Return an operator input as int64 (H, W, C): a float border input is quantised first."""
    array = to_nhwc(values, tensor)
    if tensor.dtype == "float32":
        if tensor.quant is None:
            raise ValueError(f"float input {tensor.name!r} has no quantisation")
        array = quantize_reference(array, tensor.quant, dtype)
    return array.astype(np.int64)


def real_output(values: NDArray[np.generic], tensor: Tensor) -> NDArray[np.generic]:
    """Return integer (H, W, C) results as the tensor: dequantised where it is float32."""
    if tensor.dtype == "float32":
        if tensor.quant is None:
            raise ValueError(f"float output {tensor.name!r} has no quantisation")
        values = dequantize_reference(values, tensor.quant)
    return from_nhwc(values, tensor)
