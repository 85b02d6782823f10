"""Saturation, the six rounding modes, multipliers and clamps.

The formulas are those of the frameworks named beside each mode; `a` is an int32 accumulator with
its bias, `q` and `s` are the multiplier and shift of `quantize_multiplier`, `d` a real scale.
Everything is exact integer arithmetic on int64, or IEEE float32 / float64 where a mode says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runtime_sim.errors import VnpuError
from runtime_sim.isa.fields import Rounding

Int64 = NDArray[np.int64]
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
SHIFT_MIN, SHIFT_MAX = -31, 30
IDENTITY_MULTIPLIER, IDENTITY_SHIFT = 1 << 30, 1
"""Multiplier and shift with which SINGLE_UP returns its operand unchanged."""


class NumericsError(VnpuError):
    """A scale or a shift that no requantisation mode can represent."""


def saturate_int32(value: ArrayLike) -> Int64:
    """Return int64 `value` clamped to the range of int32."""
    clamped: Int64 = np.clip(np.asarray(value, np.int64), INT32_MIN, INT32_MAX)
    return clamped


def wrapping_add_int32(a: ArrayLike, b: ArrayLike) -> Int64:
    """Return a + b as int64, modulo 2^32 as int32; both operands hold int32 values."""
    total = np.asarray(a, np.int64) + np.asarray(b, np.int64)
    return total.astype(np.int32).astype(np.int64)


def round_half_away(value: ArrayLike) -> NDArray[Any]:
    """Round floats to the nearest integer, ties away from zero (C's `round`); dtype is kept."""
    array = np.asarray(value)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(array)
        return whole + np.copysign(np.abs(array - whole) >= 0.5, array).astype(array.dtype)


def doubling_high_mul(a: Int64, q: Int64) -> Int64:
    """Return gemmlowp's SaturatingRoundingDoublingHighMul of int32 values held as int64.

    (a*q + (a*q >= 0 ? 2^30 : 1 - 2^30)) / 2^31 with a truncating division equals
    (a*q + 2^30) >> 31; INT_MIN * INT_MIN saturates.
    """
    return np.minimum((a * q + (1 << 30)) >> 31, INT32_MAX)


def rounding_divide_by_power(x: Int64, exponent: Int64) -> Int64:
    """Return gemmlowp's RoundingDivideByPOT: x / 2^exponent, ties away from zero."""
    mask = (np.int64(1) << exponent) - 1
    up = (x & mask) > (mask >> 1) + (x < 0)
    return np.add(x >> exponent, up, dtype=np.int64)


def single_up(a: Int64, q: Int64, s: Int64) -> Int64:
    """Return (a*q + 2^(30-s)) >> (31-s): one rounding, ties upward (Relay UPWARD in int64)."""
    return (a * q + (np.int64(1) << (30 - s))) >> (31 - s)


def tflite_double(a: Int64, q: Int64, s: Int64) -> Int64:
    """Return RDBP(SRDHM(a << max(s,0), q), max(-s,0)): TFLite's reference kernels."""
    return rounding_divide_by_power(_high_mul_shifted(a, q, s), np.maximum(-s, 0))


def tflite_ruy(a: Int64, q: Int64, s: Int64) -> Int64:
    """Return SRDHM(a << max(s,0), q) shifted right with ties upward: LiteRT's built-in kernels."""
    exponent = np.maximum(-s, 0)
    half: Int64 = (np.int64(1) << exponent) >> 1
    return (_high_mul_shifted(a, q, s) + half) >> exponent


def tonearest(a: Int64, q: Int64, s: Int64) -> Int64:
    """Return a*q >> (31-s) to nearest, ties away from zero (Relay TONEAREST in int64)."""
    product = a * q
    half = np.int64(1) << (30 - s)
    return (product + half - (product < 0)) >> (31 - s)


def _high_mul_shifted(a: Int64, q: Int64, s: Int64) -> Int64:
    return doubling_high_mul(saturate_int32(a << np.maximum(s, 0)), q)


_FIXED_POINT: Mapping[Rounding, Callable[[Int64, Int64, Int64], Int64]] = MappingProxyType(
    {
        Rounding.SINGLE_UP: single_up,
        Rounding.TFLITE_DOUBLE: tflite_double,
        Rounding.TFLITE_RUY: tflite_ruy,
        Rounding.TONEAREST: tonearest,
    }
)
FIXED_POINT_MODES = frozenset(_FIXED_POINT)
"""The modes that use an integer multiplier and a shift."""


def requantize(acc: ArrayLike, multiplier: ArrayLike, shift: ArrayLike, rounding: int) -> Int64:
    """Scale int32 values by multiplier * 2^(shift - 31) in a fixed-point mode.

    Operands broadcast; `shift` lies in -31..30. No zero point, no clamp. Raises NumericsError for a
    mode that takes a float scale.
    """
    mode = Rounding(rounding)
    if mode not in _FIXED_POINT:
        raise NumericsError(
            f"{mode.name} takes a float scale, not a multiplier and a shift",
            limit="one of " + ", ".join(sorted(m.name for m in FIXED_POINT_MODES)),
        )
    return _FIXED_POINT[mode](
        np.asarray(acc, np.int64), np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    )


def quantize_multiplier(real: ArrayLike) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return (q int32, s int8) with real = q * 2^(s - 31) to 31 bits: TFLite's formula.

    q = round_half_away(m * 2^31) of real = m * 2^s, 0.5 <= m < 1; scales below 2^-32 become zero.
    Raises NumericsError for a scale that is negative, not finite or not below 2^30.
    """
    scale = np.asarray(real, np.float64)
    bad = ~np.isfinite(scale) | (scale < 0)
    if np.any(bad):
        raise NumericsError("scale is not a finite number from 0", seen=scale[bad].flat[0])
    mantissa, exponent = np.frexp(scale)
    q = round_half_away(mantissa * float(1 << 31)).astype(np.int64)
    carried = q == 1 << 31
    q, s = np.where(carried, q >> 1, q), exponent + carried
    q, s = np.where(s < SHIFT_MIN, 0, q), np.where(s < SHIFT_MIN, 0, s)
    if np.any(s > SHIFT_MAX):
        raise NumericsError(
            "scale is too large for a multiplier and a shift",
            seen=scale[s > SHIFT_MAX].flat[0],
            limit=f"below 2^{SHIFT_MAX}",
            fix="check the quantisation scales of the operator",
        )
    return q.astype(np.int32), s.astype(np.int8)


def clamp(value: NDArray[Any], zero_point: int, lo: int, hi: int) -> NDArray[Any]:
    """Return integers `value` + zero_point, clamped to [lo, hi]."""
    return np.clip(value + zero_point, lo, hi)


def clamp_float(
    value: NDArray[np.floating[Any]], zero_point: int, lo: int, hi: int, ties_even: bool = True
) -> NDArray[Any]:
    """Round floats to integers, add `zero_point`, clamp to [lo, hi].

    Ties go to even, or away from zero. NaN becomes the zero point; infinities saturate. Clamping
    to integer bounds before or after rounding is the same, so it is done first.
    """
    bounded = np.clip(value, lo - zero_point, hi - zero_point)
    rounded = np.rint(bounded) if ties_even else round_half_away(bounded)
    whole = np.nan_to_num(rounded, nan=0.0).astype(np.int32) + zero_point
    return np.clip(whole, lo, hi)


def float32_bits(value: ArrayLike) -> Any:
    """Return the bits of float32 `value` as signed integers: an int for a scalar."""
    bits = np.asarray(value, np.float32).view(np.int32)
    return int(bits) if bits.ndim == 0 else bits


def float32_from_bits(bits: int) -> np.float32:
    """Return the float32 whose bits are the signed 32-bit integer `bits`."""
    return np.int32(bits).view(np.float32)
