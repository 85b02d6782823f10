"""qnn.requantize: scales to multipliers, and the proof that TVM's own result does not wrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from numpy.typing import NDArray

from codegen.graph import QuantParams
from codegen.profiles import FLOAT_MODES, Profile, Scaling, product_scaling, scaling
from runtime_sim.isa.fields import Rounding
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context
from tvm_vnpu.relay.reader import integer_type, static_shape
from tvm_vnpu.relay.semantics import Semantics

_INT32_MAX = (1 << 31) - 1
_POWER_OF_TWO = 1 << 30
_SHORTCUT_MAX = 30


@dataclass(frozen=True, slots=True, eq=False)
class Requantize:
    """A qnn.requantize: what it reads, its parameters, and the profile that it rounds in."""

    call: tvm.relay.Call
    in_scale: NDArray[np.float32]
    in_zero_point: NDArray[np.int64]
    quant: QuantParams
    dtype: str
    profile: Profile


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """The least and the largest value that is scaled, one of each or one per channel."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]

    @property
    def magnitude(self) -> NDArray[np.int64]:
        """Return the largest magnitudes."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def wrapped(low: NDArray[np.int64], high: NDArray[np.int64]) -> Reach:
    """Return the reach of int32 sums: one that may pass an end of int32 comes in at the other."""
    passes = (low < -_INT32_MAX - 1) | (high > _INT32_MAX)
    return Reach(np.where(passes, -_INT32_MAX - 1, low), np.where(passes, _INT32_MAX, high))


def within(magnitude: int) -> Reach:
    """Return the reach of values up to a magnitude."""
    return Reach(np.array([-magnitude]), np.array([magnitude]))


def read_requantize(context: Context, call: tvm.relay.Call, channel_axis: int) -> Requantize:
    """Return a qnn.requantize to int8 or uint8, per tensor or along `channel_axis`.

    Raises Unsupported for computed parameters, another axis or another compute type.
    """
    reader = context.reader
    scale, zero_point = reader.scales(call.args[1]), reader.zero_points(call.args[2])
    if max(scale.size, zero_point.size) > 1:
        axis = int(call.attrs.axis) % len(static_shape(call))
        if axis != channel_axis:
            raise Unsupported("scales must run along the channels", seen=f"axis {axis}")
    return Requantize(
        call, scale, zero_point, reader.quant(call.args[3], call.args[4]), integer_type(call),
        context.semantics.of(call.attrs),
    )  # fmt: skip


def requantize_scaling(
    requantize: Requantize, scale_x: float, scale_w: NDArray[np.float32]
) -> Scaling:
    """Return the scaling of a layer's accumulators, one entry or one per channel.

    TVM: double(input scale) / double(output scale) of the requantize itself. Another profile
    takes the scales of the layer's operands, provided that they are what the requantize undoes.
    """
    own, target = requantize.in_scale, requantize.quant.scale
    product = np.float32(scale_x) * scale_w
    if requantize.profile.name == "relay" or not _same(product, own):
        return scaling(requantize.profile.rounding, own.astype(np.float64) / np.float64(target))
    return product_scaling(requantize.profile, scale_x, scale_w, target)


def _same(product: NDArray[np.float32], own: NDArray[np.float32]) -> bool:
    if product.size != own.size and 1 not in (product.size, own.size):
        return False
    return bool(np.all(product == own))


def check_range(semantics: Semantics, scaled: Scaling, reach: Reach) -> None:
    """Raise Unsupported where TVM's int32 result could wrap, which no machine should copy."""
    if not semantics.is_relay or scaled.rounding in FLOAT_MODES:
        return
    real = np.asarray(scaled.scale, np.float64)
    if np.any(scaled.multiplier == 0):
        raise Unsupported(
            "the multiplier must not be below 2^-32: TVM's shift is not defined",
            seen=float(real.min()),
        )
    products = real * reach.magnitude.astype(np.float64)
    if np.any(products >= _INT32_MAX):
        raise Unsupported(
            "scaled values must fit int32: TVM's own result wraps",
            seen=f"up to {float(products.max()):.3g}",
        )
    if scaled.rounding == Rounding.SINGLE_UP and scaled.multiplier.size == 1:
        largest = int(reach.magnitude.max())
        _check_shortcut(int(scaled.multiplier[0]), int(scaled.shift[0]), largest)


def _check_shortcut(multiplier: int, shift: int, largest: int) -> None:
    """Raise Unsupported where TVM's int32 shift for powers of two overflows while it rounds."""
    exponent = 1 - shift
    if multiplier != _POWER_OF_TWO or exponent <= 0:
        return
    if exponent > _SHORTCUT_MAX or largest + (1 << (exponent - 1)) > _INT32_MAX:
        raise Unsupported(
            "rounding by a power of two must fit int32: TVM's own result wraps",
            seen=f"up to {largest}, shifted by {exponent}",
        )
