"""Requantisation attributes shared by the operators, and their references on tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.borders import INTEGER_LIMITS
from codegen.graph import QuantParams, Tensor, quant_of
from codegen.profiles import Scaling


@dataclass(frozen=True, slots=True, eq=False)
class Requant:
    """How accumulators become `dtype`: clamp(round(a * scale) + zero_point, low, high)."""

    scaling: Scaling
    zero_point: int
    low: int
    high: int
    dtype: str

    @property
    def offset(self) -> tuple[int, int, int]:
        """Return zero point, low and high."""
        return self.zero_point, self.low, self.high

    def reference(self, accumulator: NDArray[np.int64]) -> NDArray[np.generic]:
        """Return the requantised values of int64 accumulators (last axis: channels)."""
        s = self.scaling
        values = reference.requantize(accumulator, s.rounding.name, s.scale, self.offset)
        return values.astype(self.dtype)


def real_scale(tensor: Tensor) -> float:
    """Return a tensor's float32 scale as a float."""
    return float(np.float32(quant_of(tensor).scale))


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


def nhwc_of(values: NDArray[np.generic], tensor: Tensor) -> NDArray[np.generic]:
    """Return a tensor's array as (H, W, C), from the layout that it has in memory."""
    return reference.to_nhwc(values, tensor.hwc, tensor.layout == "NCHW")


def laid_out(values: NDArray[np.generic], tensor: Tensor) -> NDArray[np.generic]:
    """Return an (H, W, C) array as the tensor lies in memory, with its leading 1."""
    if tensor.layout == "NCHW":
        return reference.from_nhwc(values, True)[None]
    return reference.from_nhwc(values, False).reshape(tensor.shape)


def real_input(values: NDArray[np.generic], tensor: Tensor, dtype: str) -> NDArray[np.int64]:
    """Return an operator input as int64 (H, W, C): a float border input is quantised first."""
    array = nhwc_of(values, tensor)
    if tensor.dtype == "float32":
        quant = quant_of(tensor)
        array = reference.quantize(array, quant.scale, quant.zero_point, dtype, True)
    return array.astype(np.int64)


def real_output(values: NDArray[np.generic], tensor: Tensor) -> NDArray[np.generic]:
    """Return integer (H, W, C) results as the tensor: dequantised where it is float32."""
    if tensor.dtype == "float32":
        quant = quant_of(tensor)
        values = reference.dequantize(values, quant.scale, quant.zero_point)
    return laid_out(values, tensor)
