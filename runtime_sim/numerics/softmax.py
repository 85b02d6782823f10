"""Softmax along the last axis of 8-bit integers: exact in float64, and by integer shifts."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_DEPTHS = 256
"""How far an 8-bit value can lie below the maximum, plus one."""
_MAX_HALVINGS = 20
_NUMERATOR_BITS = 30
_RESULT_SHIFT = 23
_INT32_MAX = (1 << 31) - 1

Int64 = NDArray[np.int64]


def exact_softmax(x: NDArray[np.integer], scale: float) -> NDArray[np.float64]:
    """Return exp(scale * (x - max)) over its sum, float64: the softmax of 8-bit `x`.

    No quotient but those of exponentials of 0 is a rounding tie, so that the order of the sum does
    not matter to rounded results.
    """
    exponentials = _exponentials(scale)[_depths(x)]
    shares: NDArray[np.float64] = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return shares


def shiftmax(x: NDArray[np.integer], inverse_scale: int) -> Int64:
    """Return the softmax of 8-bit `x` in units of 1/128, int64.

    I-ViT's Shiftmax (arXiv 2207.01405, Algorithm 1) as TVM 0.19 lowers qnn.softmax: e^x is 2^p with
    p = x + (x >> 1) - (x >> 4), whose whole part shifts and whose rest is 1 + rest / 2. Quotients
    are at most 20. `inverse_scale`: round(1 / scale) of the input, at least 1.
    """
    halvings, mantissas = _shift_tables(inverse_scale)
    depths = _depths(x)
    whole = halvings[depths]
    exponentials = mantissas[depths] << (whole.max(axis=-1, keepdims=True) - whole)
    sums = exponentials.sum(axis=-1, keepdims=True)
    shares: Int64 = ((1 << _NUMERATOR_BITS) // sums * exponentials) >> _RESULT_SHIFT
    return shares


@lru_cache(maxsize=1024)
def shiftmax_fits(inverse_scale: int, channels: int) -> bool:
    """Tell whether every sum and product of `shiftmax` is defined in int32, whatever the values.

    Sums must be above 0, too: they divide.
    """
    if not 1 <= inverse_scale <= _INT32_MAX:
        return False
    halvings, mantissas = _shift_tables(inverse_scale)
    for most in range(int(halvings.max()) + 1):
        reached = halvings <= most
        exponentials = mantissas[reached] << (most - halvings[reached])
        low, high = int(exponentials.min()), int(exponentials.max())
        least = int(exponentials[0]) + (channels - 1) * min(low, 0)
        # Products (2^30 / sum) * e stay below 2^31 while e is less than twice the sum.
        if channels * high > _INT32_MAX or least < 1 or high >= 2 * least:
            return False
    return True


def _depths(x: NDArray[np.integer]) -> NDArray[np.intp]:
    wide = x.astype(np.intp)
    depths: NDArray[np.intp] = wide.max(axis=-1, keepdims=True) - wide
    return depths


@lru_cache(maxsize=64)
def _exponentials(scale: float) -> NDArray[np.float64]:
    """Return exp(-scale * d) of every depth d: one function for all, whatever the vector unit."""
    return np.array([math.exp(-scale * depth) for depth in range(_DEPTHS)])


@lru_cache(maxsize=64)
def _shift_tables(inverse_scale: int) -> tuple[Int64, Int64]:
    """Return (whole halvings, mantissa) of every depth below the maximum."""
    x = -np.arange(_DEPTHS, dtype=np.int64)
    power = x + (x >> 1) - (x >> 4)
    halvings = np.minimum(-power // inverse_scale, _MAX_HALVINGS)
    return halvings, ((power + halvings * inverse_scale) >> 1) + inverse_scale
