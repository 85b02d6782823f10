"""Per-channel parameter records: 12 bytes a channel, as REQUANT and AVGPOOL read them in SPM.

Every record starts with an int32 bias. A fixed-point mode adds an int32 multiplier, an int8 shift
and three zero bytes; FLOAT_RNE a float32 scale and four zero bytes; HALF_AWAY_F64 a float64 scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runtime_sim.isa.fields import Rounding
from runtime_sim.numerics.rounding import (
    FIXED_POINT_MODES,
    SHIFT_MAX,
    SHIFT_MIN,
    NumericsError,
    clamp,
    clamp_float,
    requantize,
    wrapping_add_int32,
)

RECORD_BYTES = 12

_FIXED = np.dtype(
    {"names": ["bias", "multiplier", "shift"], "formats": ["<i4", "<i4", "i1"],
     "offsets": [0, 4, 8], "itemsize": RECORD_BYTES}
)  # fmt: skip
_FLOAT32 = np.dtype(
    {"names": ["bias", "scale"], "formats": ["<i4", "<f4"], "offsets": [0, 4],
     "itemsize": RECORD_BYTES}
)  # fmt: skip
_FLOAT64 = np.dtype(
    {"names": ["bias", "scale"], "formats": ["<i4", "<f8"], "offsets": [0, 4],
     "itemsize": RECORD_BYTES}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Records:
    """Unpacked parameters of n channels.

    `bias` int64 (n,); `multiplier` and `shift` int64 (n,) in a fixed-point mode, else None;
    `scale` float32 or float64 (n,) in FLOAT_RNE and HALF_AWAY_F64, else None.
    """

    bias: NDArray[np.int64]
    multiplier: NDArray[np.int64] | None = None
    shift: NDArray[np.int64] | None = None
    scale: NDArray[np.floating[Any]] | None = None

    def take(self, index: NDArray[np.intp]) -> Records:
        """Return the records at `index`, every field in its shape."""
        return Records(
            self.bias[index],
            None if self.multiplier is None else self.multiplier[index],
            None if self.shift is None else self.shift[index],
            None if self.scale is None else self.scale[index],
        )


def record_dtype(rounding: int) -> np.dtype[np.void]:
    """Return the structured dtype of a record in one rounding mode."""
    if Rounding(rounding) in FIXED_POINT_MODES:
        return _FIXED
    return _FLOAT32 if rounding == Rounding.FLOAT_RNE else _FLOAT64


def pack_records(
    bias: ArrayLike,
    rounding: int,
    *,
    multiplier: ArrayLike | None = None,
    shift: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> NDArray[np.uint8]:
    """Pack n records; returns (n, 12) uint8.

    `bias` is int32 (n,). Fixed-point modes take `multiplier` (int32) and `shift` (int8), the two
    float modes `scale`; all broadcast to (n,). Raises NumericsError if the wrong ones are given or
    a shift is outside -31..30.
    """
    mode = Rounding(rounding)
    values = {"multiplier": multiplier, "shift": shift, "scale": scale}
    needed = ("multiplier", "shift") if mode in FIXED_POINT_MODES else ("scale",)
    given = tuple(name for name, value in values.items() if value is not None)
    if given != needed:
        raise NumericsError(
            f"records of {mode.name} need {' and '.join(needed)}", seen=", ".join(given) or "none"
        )
    if shift is not None:
        check_shifts(np.asarray(shift, np.int64))
    channels = np.atleast_1d(np.asarray(bias))
    table = np.zeros(channels.shape, record_dtype(mode))
    table["bias"] = channels
    for name in needed:
        table[name] = values[name]
    return table.view(np.uint8).reshape(-1, RECORD_BYTES)


def unpack_records(raw: NDArray[np.uint8], rounding: int) -> Records:
    """Unpack (n, 12) uint8 records. Raises NumericsError for a shift outside -31..30."""
    packed = np.ascontiguousarray(raw, np.uint8).reshape(-1, RECORD_BYTES)
    table = packed.reshape(-1).view(record_dtype(rounding))
    bias = table["bias"].astype(np.int64)
    if Rounding(rounding) not in FIXED_POINT_MODES:
        return Records(bias, scale=table["scale"].copy())
    shift = table["shift"].astype(np.int64)
    check_shifts(shift)
    return Records(bias, table["multiplier"].astype(np.int64), shift)


def check_shifts(shift: NDArray[np.int64]) -> None:
    """Raise NumericsError if a fixed-point shift is outside -31..30."""
    bad = (shift < SHIFT_MIN) | (shift > SHIFT_MAX)
    if np.any(bad):
        raise NumericsError(
            "shift of a parameter record is out of range",
            seen=int(shift[bad].flat[0]),
            limit=f"{SHIFT_MIN}..{SHIFT_MAX}",
        )


def requantize_records(
    acc: ArrayLike, records: Records, rounding: int, zero_point: int, lo: int, hi: int
) -> NDArray[Any]:
    """Return clamp(round((acc + bias) * scale) + zero_point, lo, hi) by the records' parameters.

    `acc` holds int32 values and broadcasts against the records' (n,) along its last axis; the sum
    with the bias wraps at int32, as every framework's does.
    """
    total = wrapping_add_int32(acc, records.bias)
    if records.scale is None:
        assert records.multiplier is not None and records.shift is not None
        scaled = requantize(total, records.multiplier, records.shift, rounding)
        return clamp(scaled, zero_point, lo, hi)
    ties_even = rounding == Rounding.FLOAT_RNE
    real = total.astype(records.scale.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        product = real * records.scale
    return clamp_float(product, zero_point, lo, hi, ties_even)
