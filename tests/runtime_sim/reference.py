"""A second machine, written as plain loops over Python integers: what each instruction means.

It shares nothing with runtime_sim's arithmetic or addressing, so that two independent pieces of
code have to agree. Slow on purpose.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

Fields = Mapping[str, int]
INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
_FORMATS = {0: "<b", 1: "<B", 2: "<h", 3: "<i", 4: "<f"}
U8, F32 = 1, 4
SINGLE_UP, DOUBLE, RUY, AWAY, RNE, NEAREST = range(6)


@dataclass
class State:
    """Contents of all memories."""

    spm: bytearray
    acc: list[int]
    regions: dict[int, bytearray] = field(default_factory=dict)


def saturate(value: int) -> int:
    """Clamp to int32."""
    return max(INT32_MIN, min(INT32_MAX, value))


def wrap(value: int) -> int:
    """Keep 32 bits, two's complement."""
    return (value - INT32_MIN) % (1 << 32) + INT32_MIN


def truncating_divide(a: int, b: int) -> int:
    """Divide as C does."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def high_mul(a: int, b: int) -> int:
    """SaturatingRoundingDoublingHighMul, literally."""
    product = a * b
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    return min(truncating_divide(product + nudge, 1 << 31), INT32_MAX)


def divide_by_power(x: int, e: int) -> int:
    """RoundingDivideByPOT, literally."""
    mask = (1 << e) - 1
    return (x >> e) + (1 if (x & mask) > (mask >> 1) + (1 if x < 0 else 0) else 0)


def scale_integer(a: int, q: int, s: int, mode: int) -> int:
    """Apply a fixed-point multiplier."""
    if mode == SINGLE_UP:
        return (a * q + (1 << (30 - s))) >> (31 - s)
    if mode == NEAREST:
        n = 31 - s
        return (a * q + ((1 << (n - 1)) if a * q >= 0 else (1 << (n - 1)) - 1)) >> n
    high = high_mul(saturate(a << max(s, 0)), q)
    e = max(-s, 0)
    if mode == DOUBLE:
        return divide_by_power(high, e)
    return (high + (1 << (e - 1))) >> e if e else high


def half_away(value: Fraction) -> int:
    """Round an exact value, ties away from zero."""
    magnitude = abs(value)
    whole = (2 * magnitude.numerator + magnitude.denominator) // (2 * magnitude.denominator)
    return whole if value >= 0 else -whole


def float_to_integer(x: float, zero_point: int, lo: int, hi: int, away: bool = False) -> int:
    """Round a float and clamp it; NaN is the zero point."""
    if np.isnan(x):
        return max(lo, min(hi, zero_point))
    if np.isinf(x):
        return hi if x > 0 else lo
    exact = Fraction(float(x))
    rounded = half_away(exact) if away else round(exact)
    return max(lo, min(hi, rounded + zero_point))


def bits_to_float(bits: int) -> np.float32:
    """Return the float32 with these bits."""
    return np.float32(struct.unpack("<f", struct.pack("<i", bits))[0])


def requantize(f: Fields, acc: int, record: bytes) -> int:
    """Apply one parameter record."""
    total = wrap(acc + struct.unpack_from("<i", record)[0])
    mode = f["rounding"]
    if mode == RNE:
        with np.errstate(all="ignore"):
            real = np.float32(total) * np.float32(struct.unpack_from("<f", record, 4)[0])
        return float_to_integer(real, f["out_zp"], f["lo"], f["hi"])
    if mode == AWAY:
        product = float(total) * struct.unpack_from("<d", record, 4)[0]
        return float_to_integer(product, f["out_zp"], f["lo"], f["hi"], away=True)
    multiplier, shift = struct.unpack_from("<ib", record, 4)
    scaled = scale_integer(total, multiplier, shift, mode)
    return max(f["lo"], min(f["hi"], scaled + f["out_zp"]))


def address(f: Fields, prefix: str, y: int, x: int, c: int, dtype: int) -> int:
    """Return the SPM address of an element of a tensor operand."""
    ring = f[f"{prefix}_ring_rows"]
    row = (f[f"{prefix}_ring_start"] + y) % ring if ring else y
    channel = f.get(f"{prefix}_channel_stride", struct.calcsize(_FORMATS[dtype]))
    strides = f[f"{prefix}_row_stride"], f[f"{prefix}_pixel_stride"], channel
    return f[f"{prefix}_addr"] + row * strides[0] + x * strides[1] + c * strides[2]


def get(state: State, f: Fields, prefix: str, y: int, x: int, c: int, dtype: int) -> Any:
    """Read an element."""
    at = address(f, prefix, y, x, c, dtype)
    if dtype == F32:
        return np.frombuffer(state.spm, np.float32, 1, at)[0]
    return struct.unpack_from(_FORMATS[dtype], state.spm, at)[0]


def put(
    state: State, f: Fields, prefix: str, y: int, x: int, c: int, dtype: int, value: Any
) -> None:
    """Write an element."""
    at = address(f, prefix, y, x, c, dtype)
    if dtype == F32:
        state.spm[at : at + 4] = np.float32(value).tobytes()
    else:
        struct.pack_into(_FORMATS[dtype], state.spm, at, value)


def present(f: Fields, y: int, x: int) -> bool:
    """Tell whether an input pixel is inside the input."""
    return 0 <= y < f["in_h"] and 0 <= x < f["in_w"]


def taps(f: Fields, y: int, x: int) -> list[tuple[int, int, int, int]]:
    """Return (kernel y, kernel x, input y, input x) of one window."""
    dh, dw = f.get("dh", 1), f.get("dw", 1)
    return [
        (i, j, y * f["sh"] + i * dh - f["pad_top"], x * f["sw"] + j * dw - f["pad_left"])
        for i in range(f["kh"])
        for j in range(f["kw"])
    ]


def pixels(f: Fields, prefix: str = "out_") -> list[tuple[int, int]]:
    """Return all (y, x) of the output."""
    height, width = f.get(f"{prefix}h", f.get("h", 0)), f.get(f"{prefix}w", f.get("w", 0))
    return [(y, x) for y in range(height) for x in range(width)]
