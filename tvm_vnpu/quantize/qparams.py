"""Scales and zero points; the results equal those of onnxruntime's static quantiser."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

INT8_MIN, INT8_MAX = -128, 127
WEIGHT_MAX = 127
INT32_MAX = 2**31 - 1
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class QParams:
    """Per-tensor quantisation: real = (q - zero_point) * scale, q int8."""

    scale: np.float32
    zero_point: int


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """Symmetric int8 weights and float32 scales, one per output channel."""

    values: np.ndarray
    scales: np.ndarray


def activation_qparams(low: float, high: float, symmetric: bool = False) -> QParams:
    """Return int8 parameters for values in [low, high], widened so that 0 is exact.

    scale = (high - low) / 255 and zero_point = round(-128 - low / scale), half to even; a range of
    no width gives scale 1, zero point 0. Source: onnxruntime.quantization.quant_utils.
    """
    low32, high32 = np.float32(min(low, 0.0)), np.float32(max(high, 0.0))
    if symmetric:
        limit = max(-low32, high32)
        low32, high32 = -limit, limit
    scale = (float(high32) - float(low32)) / (INT8_MAX - INT8_MIN)
    if scale < _TINY:
        return QParams(np.float32(1.0), 0)
    if symmetric:
        return QParams(np.float32(scale), 0)
    return QParams(np.float32(scale), int(np.rint(INT8_MIN - float(low32) / scale)))


def quantize_values(values: np.ndarray, qparams: QParams) -> np.ndarray:
    """Return int8 values by per-tensor parameters."""
    return quantize_array(
        values, np.asarray(qparams.scale), np.asarray(qparams.zero_point, np.int8)
    )


def quantize_array(values: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """Return round half to even of values / scale, plus zero point, saturated to its dtype.

    Scale and zero point broadcast against the values. Source: ONNX QuantizeLinear.
    """
    limits = np.iinfo(zero_point.dtype)
    scaled = np.rint(np.asarray(values, np.float32) / scale) + zero_point.astype(np.float64)
    return np.clip(scaled, limits.min, limits.max).astype(zero_point.dtype)


def weight_scales(
    weight: np.ndarray, axis: int, input_scale: float, bias: np.ndarray | None, per_channel: bool
) -> np.ndarray:
    """Return float32 scales [channels] of a symmetric int8 weight.

    scale = max|w| / 127 per channel, raised where the int32 bias would clip: |bias / (input_scale *
    scale)| plus the largest possible sum of products stays within int32.
    """
    by_channel = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
    largest = np.abs(by_channel).max(axis=1, initial=0.0)
    floor = np.full(largest.shape, 2.0 * _TINY / min(float(input_scale), 1.0))
    if bias is not None:
        products = by_channel.shape[1] * WEIGHT_MAX * (INT8_MAX - INT8_MIN)
        limit = max(INT32_MAX - products, 2**30)
        floor = np.maximum(floor, np.abs(bias.astype(np.float64)) / (float(input_scale) * limit))
    natural = largest / WEIGHT_MAX
    scales = np.maximum(natural, floor)
    if not per_channel:
        natural[:], scales[:], largest[:] = natural.max(), scales.max(), largest.max()
    no_bias = np.asarray(bias) == 0 if bias is not None else np.ones(largest.shape, bool)
    scales[(largest == 0) & no_bias] = 1.0
    return _rounded_up_where_raised(scales, natural)


def _rounded_up_where_raised(scales: np.ndarray, natural: np.ndarray) -> np.ndarray:
    """Round to float32; upwards where a limit set the scale, so that rounding cannot break it."""
    nearest = scales.astype(np.float32)
    above = np.where(nearest < scales, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return np.where(scales > natural, above, nearest).astype(np.float32)


def quantize_weight(weight: np.ndarray, axis: int, scales: np.ndarray) -> QuantizedWeight:
    """Return the weight in [-127, 127], channel `axis` by its scale, rounded half to even."""
    shape = [1] * weight.ndim
    shape[axis] = -1
    scaled = np.rint(weight.astype(np.float32) / scales.reshape(shape))
    values = np.clip(scaled, -WEIGHT_MAX, WEIGHT_MAX).astype(np.int8)
    return QuantizedWeight(values, scales)


def bias_scales(input_scale: np.float32, scales: np.ndarray) -> np.ndarray:
    """Return the float32 scales of the int32 bias: input scale times weight scale."""
    return (np.float32(input_scale) * scales.astype(np.float32)).astype(np.float32)


def quantize_bias(bias: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the int32 bias, rounded half to even and saturated."""
    scaled = np.rint(bias.astype(np.float64) / scales.astype(np.float64))
    return np.clip(scaled, -INT32_MAX - 1, INT32_MAX).astype(np.int32)
