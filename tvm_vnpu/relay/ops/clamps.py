"""Clamps of integers: clip, relu, and maximum or minimum with a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm import relay

from codegen.arithmetic import INTEGER_LIMITS
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.layouts import per_channel
from tvm_vnpu.relay.reader import Reader, dtype_of, static_shape

OPERATORS = ("clip", "nn.relu", "maximum", "minimum")
INT32 = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Clamp:
    """low <= q <= high on raw integers; vectors of one value, or one per channel."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]

    def of(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return values clamped."""
        return np.clip(values, self.low, self.high)

    def within(self, outer: Clamp) -> Clamp:
        """Return this clamp followed by `outer`."""
        return Clamp(
            np.clip(self.low, outer.low, outer.high), np.clip(self.high, outer.low, outer.high)
        )


def limits(dtype: str) -> Clamp:
    """Return the clamp of a type that tensors or accumulators have; Unsupported for others."""
    if dtype != "int32" and dtype not in INTEGER_LIMITS:
        raise Unsupported("quantised tensors must be int8 or uint8", seen=dtype)
    low, high = INT32 if dtype == "int32" else INTEGER_LIMITS[dtype]
    return Clamp(np.array([low], np.int64), np.array([high], np.int64))


def bounds(call: relay.Call, whole: Clamp) -> Clamp:
    """Return the clamp of a clip, within its type; Unsupported for bounds that are not numbers.

    TVM applies the upper bound first, so that a lower bound above it is the result.
    """
    ends = [float(call.attrs.a_min), float(call.attrs.a_max)]
    if np.isnan(ends).any():
        raise Unsupported("the bounds of a clip must be numbers", seen=ends)
    least, largest = int(whole.low[0]), int(whole.high[0])
    low, high = (int(np.clip(end, least, largest)) for end in ends)
    return Clamp(np.array([low], np.int64), np.array([max(low, high)], np.int64))


def check_same_shape(reader: Reader, operand: relay.Expr, call: relay.Call) -> None:
    """Raise Unsupported where the constant beside an operand gives the result another shape."""
    before, after = static_shape(reader.value(operand)), static_shape(call)
    if before != after:
        raise Unsupported(
            "a constant must not broadcast the tensor beside it", seen=f"{before} to {after}"
        )


def strip(reader: Reader, expr: relay.Expr, axis: int) -> tuple[relay.Expr, Clamp]:
    """Return what a chain of clamps reads, and the chain as one clamp.

    `axis`: the channels, along which constants may vary. Raises Unsupported for other constants,
    and for those that give the tensor another shape.
    """
    chain: list[Clamp] = []
    whole = limits(dtype_of(reader.value(expr)))
    while True:
        found = _one(reader, expr, axis, whole)
        if found is None:
            break
        expr, clamp = found
        chain.append(clamp)
    for clamp in reversed(chain):
        whole = whole.within(clamp)
    return expr, whole


def _one(
    reader: Reader, expr: relay.Expr, axis: int, whole: Clamp
) -> tuple[relay.Expr, Clamp] | None:
    """Return (operand, clamp) of one clamp, or None where the expression is none."""
    call = reader.call(expr, *OPERATORS)
    if call is None:
        return None
    name = str(call.op.name)
    if name == "clip":
        return call.args[0], bounds(call, whole)
    if name == "nn.relu":
        return call.args[0], Clamp(np.zeros(1, np.int64), whole.high)
    constants = [reader.constant(argument) for argument in call.args]
    if constants[0] is None and constants[1] is None:
        return None
    index = 0 if constants[0] is None else 1
    data = constants[1 - index]
    assert data is not None
    check_same_shape(reader, call.args[index], call)
    bound = per_channel(data, len(call.checked_type.shape), axis)
    clamp = Clamp(bound, whole.high) if name == "maximum" else Clamp(whole.low, bound)
    return call.args[index], clamp
