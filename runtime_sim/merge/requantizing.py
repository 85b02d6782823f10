"""Requantisation of whole layers: float arithmetic where it is proven exact, else the formulas.

SINGLE_UP is floor((s + b) * q / 2^n + 1/2) with n = 31 - shift, then the zero point and a clamp to
8 bits, for a sum s of products and a bias b. Where q / 2^n <= 1 the result rises by at most one per
step of s, so clamping s between the first and the last value that give lo and hi is the same as
clamping the result. What is left is real arithmetic on multiples of 2^-n below 2^9: with n <= 43
float64 holds each of them exactly, and the final cast truncates numbers that are not negative.
Channels whose result is the same for every possible s get a factor of zero. For a larger n the
float64 expression, which never falls as s rises, is checked on both sides of each of its steps.

FLOAT_RNE is float32 arithmetic by definition; a sum below 2^24 enters it exactly, a larger one is
rounded once, from float64, as an integer would be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from runtime_sim import numerics
from runtime_sim.isa.fields import Rounding
from runtime_sim.merge import scratch
from runtime_sim.merge.sums import FLOAT32_EXACT, INT32_SPAN, Weights
from runtime_sim.numerics import Records
from runtime_sim.views import Fields

Array = NDArray[Any]
Int64 = NDArray[np.int64]
Finish = Callable[[Array, Array], None]
"""Writes the results of a block of raw sums (pixels, channels) to a result of any strides."""

_MAX_EXPONENT, _MAX_ZERO_POINT = 43, 256
_EXACT_PRODUCT, _FAR = 2.0**51, 1 << 34
_LONG_ROW = 1024
"""Elements that one row of a requantisation should have: pixels are joined until it has."""


def choose(f: Fields, records: Records, weights: Sequence[Weights]) -> tuple[np.dtype[Any], Finish]:
    """Return the type in which to sum a layer exactly, and what turns the sums into results."""
    fold = sum((part.fold for part in weights), np.zeros(1, np.int64))
    raw = sum((part.absolute * part.largest_raw for part in weights), np.zeros(1, np.int64))
    true = sum((part.absolute * part.largest for part in weights), np.zeros(1, np.int64))
    bias = records.bias - fold
    single = bool((raw < FLOAT32_EXACT).all())
    dtype = np.dtype(np.float32 if single else np.float64)
    if bool((true + np.abs(records.bias) < INT32_SPAN).all()):
        if f["rounding"] == Rounding.SINGLE_UP and _rises_by_one(f, records):
            up = _Up(f, records, bias, raw, dtype)
            if up.exact:
                return dtype, up
        if f["rounding"] == Rounding.FLOAT_RNE and _finite(records):
            exact = single and bool((raw + np.abs(bias) < FLOAT32_EXACT).all())
            return dtype, _Even(f, records, bias, exact)
    return dtype, _formula(f, records, fold)


def joined(channels: int) -> int:
    """Return how many pixels a row of a requantisation joins."""
    return max(1, -(-_LONG_ROW // channels))


def _rises_by_one(f: Fields, records: Records) -> bool:
    """Tell whether no multiplier is negative or above 1, and the zero point is an ordinary one."""
    assert records.shift is not None and records.multiplier is not None
    q, n = records.multiplier, 31 - records.shift
    small = q <= np.int64(1) << np.minimum(n, 62)
    return bool(small.all() and (q >= 0).all()) and abs(f["out_zp"]) <= _MAX_ZERO_POINT


def _finite(records: Records) -> bool:
    assert records.scale is not None
    return bool(np.isfinite(records.scale).all())


class _Up:
    """SINGLE_UP for sums that stay within +-`raw`; `bias` has the input zero point folded in."""

    def __init__(
        self, f: Fields, records: Records, bias: Int64, raw: Int64, dtype: np.dtype[Any]
    ) -> None:
        assert records.multiplier is not None and records.shift is not None
        q, n, zero = records.multiplier, 31 - records.shift, f["out_zp"]
        self._lift = 128 if f["lo"] < 0 else 0
        low = thresholds(q, n, f["lo"] - zero) - bias
        high = thresholds(q, n, f["hi"] - zero + 1) - bias - 1
        constant = (q == 0) | (low >= raw) | (high <= -raw)
        level = np.where(low >= raw, f["lo"], np.where(high <= -raw, f["hi"], zero))
        level = np.where(q == 0, np.clip(zero, f["lo"], f["hi"]), level)
        scale = np.where(constant, 0.0, np.ldexp(q.astype(np.float64), -n.astype(np.int32)))
        add = np.where(constant, level, zero) + self._lift + 0.5
        bias = np.where(constant, 0, bias)
        largest = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(bias))
        folded = bool((constant | (largest.astype(np.float64) * q < _EXACT_PRODUCT)).all())
        self._clamps = bool(((low > -raw) | (high < raw)).any())
        self._low = self._tile(np.clip(np.where(constant, 0, low), -raw, raw), dtype)
        self._high = self._tile(np.clip(np.where(constant, 0, high), -raw, raw), dtype)
        self._apart = None if folded else self._tile(bias, np.float64)
        self._scale = self._tile(scale, np.float64)
        self._add = self._tile(add + bias * scale if folded else add, np.float64)
        doubtful = np.flatnonzero((n > _MAX_EXPONENT) & ~constant)
        self.exact = all(
            self._proven(int(i), int(q[i]), int(n[i]), int(bias[i]), int(raw[i]), f)
            for i in doubtful
        )

    @staticmethod
    def _tile(values: Array, dtype: DTypeLike) -> Array:
        return np.tile(values.astype(dtype), joined(len(values)))

    def _proven(self, channel: int, q: int, n: int, bias: int, raw: int, f: Fields) -> bool:
        """Check each step of a channel's result on both sides; between steps it cannot move."""
        levels = np.arange(f["lo"] + 1, f["hi"] + 1)
        steps = np.array([_threshold(q, n, int(t) - f["out_zp"]) - bias for t in levels])
        inside = (steps > -raw) & (steps <= raw)
        for sums, rises in ((steps[inside], True), (steps[inside] - 1, False)):
            real = sums.astype(np.float64)
            if self._apart is not None:
                real = real + self._apart[channel]
            real = real * self._scale[channel] + self._add[channel]
            if ((np.floor(real) >= levels[inside] + self._lift) != rises).any():
                return False
        return True

    def __call__(self, sums: Array, out: Array) -> None:
        rows = sums.reshape(-1, len(self._scale))
        if self._clamps:
            np.maximum(rows, self._low, out=rows)
            np.minimum(rows, self._high, out=rows)
        real = scratch.array("real", rows.shape, np.float64)
        np.copyto(real, rows)
        if self._apart is not None:
            np.add(real, self._apart, out=real)
        np.multiply(real, self._scale, out=real)
        np.add(real, self._add, out=real)
        lifted = scratch.array("lifted", rows.shape, np.uint8)
        np.copyto(lifted, real, casting="unsafe")
        pixels = out.shape[0] * out.shape[1]
        kept = lifted.reshape(-1, sums.shape[1])[:pixels].reshape(out.shape)
        np.bitwise_xor(kept, np.uint8(self._lift), out=out.view(np.uint8))


def thresholds(q: Int64, n: Int64, level: int) -> Int64:
    """Return per channel the least a with floor(a * q / 2^n + 1/2) >= level, within +-2^34."""
    pairs = zip(q.tolist(), n.tolist(), strict=True)
    steps = [_threshold(max(factor, 1), exponent, level) for factor, exponent in pairs]
    return np.array([min(max(step, -_FAR), _FAR) for step in steps], np.int64)


def _threshold(q: int, n: int, level: int) -> int:
    return -(((1 - 2 * level) << (n - 1)) // q)


class _Even:
    """FLOAT_RNE; without `exact`, sums with their bias are rounded to float32 as integers are."""

    def __init__(self, f: Fields, records: Records, bias: Int64, exact: bool) -> None:
        assert records.scale is not None
        count, zero = joined(len(bias)), f["out_zp"]
        self._bias = np.tile(bias.astype(np.float32 if exact else np.float64), count)
        self._scale = np.tile(records.scale, count)
        self._zero = np.float32(zero)
        self._lo, self._hi = np.float32(f["lo"] - zero), np.float32(f["hi"] - zero)

    def __call__(self, sums: Array, out: Array) -> None:
        real = sums.reshape(-1, len(self._bias))
        if self._bias.dtype == np.float32:
            np.add(real, self._bias, out=real)
        else:
            wide = scratch.array("wide", real.shape, np.float64)
            np.copyto(wide, real)
            np.add(wide, self._bias, out=wide)
            real = scratch.array("real", real.shape, np.float32)
            np.copyto(real, wide, casting="same_kind")
        with np.errstate(over="ignore"):
            np.multiply(real, self._scale, out=real)
        np.maximum(real, self._lo, out=real)
        np.minimum(real, self._hi, out=real)
        np.rint(real, out=real)
        np.add(real, self._zero, out=real)
        _save(real, sums.shape[1], out)


def _save(real: Array, channels: int, out: Array) -> None:
    pixels = out.shape[0] * out.shape[1]
    np.copyto(out, real.reshape(-1, channels)[:pixels].reshape(out.shape), casting="unsafe")


def _formula(f: Fields, records: Records, fold: Int64) -> Finish:
    """Return the rounding mode's own formula on int64, for any bounds."""

    def finish(sums: Array, out: Array) -> None:
        pixels = out.shape[0] * out.shape[1]
        whole = sums[:pixels].astype(np.int64) - fold
        acc = whole.astype(np.int32).reshape(out.shape)
        out[...] = numerics.requantize_records(
            acc, records, f["rounding"], f["out_zp"], f["lo"], f["hi"]
        )

    return finish
