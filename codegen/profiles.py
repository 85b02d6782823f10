"""Semantics profiles: which rounding and multiplier formula each source framework uses.

A profile turns real scales into the integer (or float) constants that REQUANT, ELTWISE, AVGPOOL
and CONVERT read. Formulas and oracles: `docs/numerics.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from runtime_sim.errors import VnpuError
from runtime_sim.isa.fields import Rounding
from runtime_sim.numerics import pack_records, quantize_multiplier

ADD_LEFT_SHIFT = 20
FLOAT_MODES = (Rounding.FLOAT_RNE, Rounding.HALF_AWAY_F64)


class ProfileError(VnpuError):
    """An unknown semantics profile, or one the chip cannot run."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One framework's arithmetic. `float_product`: sx * sw is rounded to float32 first."""

    name: str
    rounding: Rounding
    float_product: bool
    add_common_scale: bool
    summary: str


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        p.name: p
        for p in (
            Profile(
                "integer", Rounding.SINGLE_UP, False, True, "fixed point, one rounding half up"
            ),
            Profile("onnx", Rounding.FLOAT_RNE, True, True, "float32 scales, half to even"),
            Profile("tflite", Rounding.TFLITE_DOUBLE, False, True, "LiteRT reference kernels"),
            Profile("relay", Rounding.SINGLE_UP, True, False, "TVM 0.19 int64 lowering, UPWARD"),
        )
    }
)


def profile(name: str) -> Profile:
    """Return a profile by name; ProfileError for an unknown one."""
    if name not in PROFILES:
        raise ProfileError(
            f"unknown rounding profile {name!r}", limit=f"one of {', '.join(PROFILES)}"
        )
    return PROFILES[name]


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """Constants of one rescaling, per channel or of length 1.

    Fixed point: `multiplier` int32 and `shift` int8. FLOAT_RNE: `scale` float32;
    HALF_AWAY_F64: `scale` float64.
    """

    rounding: Rounding
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]
    scale: NDArray[np.floating]

    def records(self, bias: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return the 12-byte parameter records, uint8 of shape (channels, 12)."""
        count, offsets = len(bias), np.asarray(bias, np.int32)
        if self.rounding in FLOAT_MODES:
            scale = np.broadcast_to(self.scale, count)
            return pack_records(offsets, self.rounding, scale=scale)
        multiplier = np.broadcast_to(self.multiplier, count)
        shift = np.broadcast_to(self.shift, count)
        return pack_records(offsets, self.rounding, multiplier=multiplier, shift=shift)


def scaling(rounding: Rounding, real: NDArray[np.float64]) -> Scaling:
    """Return the constants that multiply by `real` (float64, any length >= 1)."""
    real = np.atleast_1d(np.asarray(real, np.float64))
    if rounding in FLOAT_MODES:
        kind = np.float32 if rounding == Rounding.FLOAT_RNE else np.float64
        zeros = np.zeros(len(real))
        return Scaling(rounding, zeros.astype(np.int32), zeros.astype(np.int8), real.astype(kind))
    multiplier, shift = quantize_multiplier(real)
    return Scaling(rounding, multiplier, shift, real.astype(np.float64))


def product_scaling(
    p: Profile, scale_x: float, scale_w: NDArray[np.float32], scale_y: float
) -> Scaling:
    """Return the scaling of a convolution or dense layer: sx * sw[c] / sy.

    onnx: float32(float32(sx*sw)/sy) (onnxruntime QLinearConv); relay: double(float32(sx*sw)) / sy
    (TVM v0.19 qnn.requantize); integer and tflite: all in double (TFLite PopulateConvolution...).
    """
    weights = np.asarray(scale_w, np.float32)
    if p.rounding == Rounding.FLOAT_RNE:
        real = np.float32(scale_x) * weights / np.float32(scale_y)
        return scaling(p.rounding, real.astype(np.float64))
    if p.float_product:
        product = (np.float32(scale_x) * weights).astype(np.float64)
    else:
        product = np.float64(np.float32(scale_x)) * weights.astype(np.float64)
    return scaling(p.rounding, product / np.float64(np.float32(scale_y)))


def check_profile(p: Profile, float_requantizer: bool, npu: str) -> None:
    """Raise ProfileError if the chip cannot round the way the profile asks."""
    if p.rounding == Rounding.FLOAT_RNE and not float_requantizer:
        raise ProfileError(
            f"profile {p.name!r} needs a float requantiser, which {npu} lacks",
            fix="use --rounding integer",
        )
