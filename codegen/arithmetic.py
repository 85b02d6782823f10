"""Rounding of the operators' references, written apart from the simulator's.

Nothing here may import `runtime_sim`: two independent pieces of arithmetic must agree. Formulas
follow TFLite, TVM v0.19 and onnxruntime as their sources state them; modes are named by strings.
Clarity over speed: everything is int64 or the float type the mode names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
INTEGER_LIMITS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"int8": (-128, 127), "uint8": (0, 255)}
)


def _doubling_high_mul(a: I64, b: I64) -> I64:
    """gemmlowp SaturatingRoundingDoublingHighMul: nudge by sign, divide by 2^31 toward zero."""
    product = a * b
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    quotient = np.where(nudged >= 0, nudged >> 31, -((-nudged) >> 31))
    both_min = (a == -(1 << 31)) & (b == -(1 << 31))
    return np.where(both_min, (1 << 31) - 1, quotient)


def _divide_half_away(x: I64, exponent: I64) -> I64:
    """gemmlowp RoundingDivideByPOT: divide by 2^exponent, ties away from zero."""
    mask = (np.int64(1) << exponent) - 1
    threshold = (mask >> 1) + (x < 0)
    return (x >> exponent) + ((x & mask) > threshold)


def _shifted_left(a: I64, s: I64) -> I64:
    """Shift by a positive exponent, saturated: TFLite leaves overflow undefined."""
    return saturate32(a << np.maximum(s, 0))


def tflite_double(a: I64, q: I64, s: I64) -> I64:
    """TFLite reference: MultiplyByQuantizedMultiplier with two roundings."""
    return _divide_half_away(_doubling_high_mul(_shifted_left(a, s), q), np.maximum(-s, 0))


def tflite_ruy(a: I64, q: I64, s: I64) -> I64:
    """ruy's kernels: the second rounding is half up."""
    high = _doubling_high_mul(_shifted_left(a, s), q)
    right = np.maximum(-s, 0)
    half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
    return (high + half) >> right


def single_up(a: I64, q: I64, s: I64) -> I64:
    """TVM UPWARD: one rounding, half up."""
    return (a * q + (np.int64(1) << (30 - s))) >> (31 - s)


def to_nearest(a: I64, q: I64, s: I64) -> I64:
    """TVM TONEAREST: one rounding, half away from zero."""
    product, n = a * q, 31 - s
    half = np.int64(1) << (n - 1)
    return (product + np.where(product >= 0, half, half - 1)) >> n


FIXED_POINT: Mapping[str, Callable[[I64, I64, I64], I64]] = MappingProxyType(
    {
        "SINGLE_UP": single_up,
        "TFLITE_DOUBLE": tflite_double,
        "TFLITE_RUY": tflite_ruy,
        "TONEAREST": to_nearest,
    }
)


def fixed_point(real: NDArray[np.float64]) -> tuple[I64, I64]:
    """Return (q, s), int64, with real = q * 2^(s - 31): TFLite QuantizeMultiplier.

    The mantissa is rounded half away from zero; a scale below 2^-32 becomes zero.
    """
    mantissa, exponent = np.frexp(np.asarray(real, np.float64))
    q = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    exponent = np.where(q == 1 << 31, exponent + 1, exponent).astype(np.int64)
    q = np.where(q == 1 << 31, 1 << 30, q)
    tiny = exponent < -31
    return np.where(tiny, 0, q), np.where(tiny, 0, exponent)


def rescale(a: I64, rounding: str, scale: NDArray) -> NDArray:
    """Return `a` (int64) times the real `scale`, rounded in a mode; shapes broadcast.

    Returns int64 for fixed point and HALF_AWAY_F64, float32 (whole values) for FLOAT_RNE.
    """
    if rounding in FIXED_POINT:
        return FIXED_POINT[rounding](a, *fixed_point(scale))
    if rounding == "FLOAT_RNE":
        return np.rint(a.astype(np.float32) * np.asarray(scale, np.float32))
    product = a.astype(np.float64) * np.asarray(scale, np.float64)
    return (np.sign(product) * np.floor(np.abs(product) + 0.5)).astype(np.int64)


def finish(rounded: NDArray, zero_point: int, low: int, high: int) -> I64:
    """Add the zero point and clamp last; returns int64."""
    if rounded.dtype.kind == "f":
        rounded = np.clip(rounded, np.float32(low - zero_point), np.float32(high - zero_point))
    return np.clip(rounded.astype(np.int64) + zero_point, low, high)


def saturate32(a: I64) -> I64:
    """Clamp to int32."""
    return np.clip(a, -(1 << 31), (1 << 31) - 1)


def wrap32(a: I64) -> I64:
    """Return what is left of integers in 32 bits, two's complement."""
    return (a + (1 << 31)) % (1 << 32) - (1 << 31)
