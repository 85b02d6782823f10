"""Tables of the QNN operators of one tensor, entry for entry what TVM 0.19 computes.

TVM makes a table for each of the unary operators itself, in NumPy's float32 arithmetic, and rounds
half away from zero (`tvm.relay.qnn.op.legalizations`); `qnn.leaky_relu` it lowers to fixed-point
multiplications, whose 256 results are a table, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import Tensor, quant_of
from codegen.profiles import scaling
from runtime_sim.isa.fields import LUT_ENTRIES, Rounding
from runtime_sim.numerics import requantize, round_half_away
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.ops.requantizing import check_range, within
from tvm_vnpu.relay.semantics import Semantics

Floats = NDArray[Any]
Integers = NDArray[np.int64]


def _erf(x: Floats) -> Floats:
    from scipy import special  # TVM's own dependency, for this operator alone

    result: Floats = special.erf(x)
    return result


def _hardswish(x: Floats) -> Floats:
    return x * np.clip(x + np.float32(3), np.float32(0), np.float32(6)) / np.float32(6)


FUNCTIONS: Mapping[str, Callable[[Floats], Floats]] = MappingProxyType(
    {
        "qnn.abs": np.abs,
        "qnn.erf": _erf,
        "qnn.exp": np.exp,
        "qnn.hardswish": _hardswish,
        "qnn.log": np.log,
        "qnn.rsqrt": lambda x: 1 / np.sqrt(x),
        "qnn.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "qnn.sqrt": np.sqrt,
        "qnn.tanh": np.tanh,
    }
)
"""Operator -> its function on float32."""


def unary_table(name: str, source: Tensor, target: Tensor, semantics: Semantics) -> Integers:
    """Return the results of a unary operator by input byte, (256,) int64.

    What is not a number becomes the largest value, as TVM's compiled clamp has it.
    """
    quant = quant_of(source)
    centred = (_values(source.dtype) - quant.zero_point).astype(np.float32)
    with np.errstate(all="ignore"):
        result = FUNCTIONS[name](centred * np.float32(quant.scale))
    return _quantized(result, target, semantics)


def leaky_relu_table(
    alpha: float, source: Tensor, target: Tensor, semantics: Semantics
) -> Integers:
    """Return the results of qnn.leaky_relu by input byte, (256,) int64.

    TVM requantises x to the output, in int32; below the input's zero point it then multiplies by
    alpha and adds (1 - alpha) * out_zp, each rounded half up. Raises Unsupported where one of these
    is not defined in TVM.
    """
    if not 0 <= alpha <= 1:
        raise Unsupported("the slope of a leaky relu must be 0 to 1", seen=alpha)
    quant, out = quant_of(source), quant_of(target)
    x = _values(source.dtype)
    if not semantics.is_relay:
        real = (x - quant.zero_point).astype(np.float32) * np.float32(quant.scale)
        bent = np.where(real < 0, real * np.float32(alpha), real)
        return _quantized(bent, target, semantics)
    ratio = float(np.float32(quant.scale)) / float(np.float32(out.scale))
    mode = semantics.of().rounding
    moved = _multiplied(x - quant.zero_point, ratio, mode, semantics) + out.zero_point
    up = Rounding.SINGLE_UP
    bent = _multiplied(moved, alpha, up, semantics)
    bent = bent + _multiplied(np.array([out.zero_point]), 1 - alpha, up, semantics)
    return np.clip(np.where(x < quant.zero_point, bent, moved), *INTEGER_LIMITS[target.dtype])


def _multiplied(x: Integers, real: float, mode: Rounding, semantics: Semantics) -> Integers:
    """Return integers times a real number as TVM's fixed-point multiplication has them."""
    if real == 0:
        return np.zeros_like(x)
    scaled = scaling(mode, np.array([real]))
    check_range(semantics, scaled, within(int(np.abs(x).max())))
    return requantize(x, scaled.multiplier, scaled.shift, mode)


def _values(dtype: str) -> Integers:
    """Return the value of each byte in an 8-bit type."""
    return np.arange(LUT_ENTRIES, dtype=np.uint8).view(dtype).astype(np.int64)


def _quantized(real: Floats, target: Tensor, semantics: Semantics) -> Integers:
    """Return float32 numbers quantised: ties away from zero in TVM, else to even."""
    quant, (low, high) = quant_of(target), INTEGER_LIMITS[target.dtype]
    with np.errstate(all="ignore"):
        steps = (real / np.float32(quant.scale)).astype(np.float64)
        rounded = round_half_away(steps) if semantics.is_relay else np.rint(steps)
    limited = np.clip(np.where(np.isnan(rounded), np.inf, rounded) + quant.zero_point, low, high)
    return limited.astype(np.int64)
