"""Clamps of integers: clip, relu, and maximum or minimum with a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm import relay

from codegen.arithmetic import INTEGER_LIMITS
from tvm_vnpu.relay.layouts import per_channel
from tvm_vnpu.relay.reader import Reader, dtype_of

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
    """Return the clamp of an integer type."""
    low, high = INT32 if dtype == "int32" else INTEGER_LIMITS[dtype]
    return Clamp(np.array([low], np.int64), np.array([high], np.int64))


def strip(reader: Reader, expr: relay.Expr, axis: int) -> tuple[relay.Expr, Clamp]:
    """Return what a chain of clamps reads, and the chain as one clamp.

    `axis`: the channels, along which constants may vary. Raises Unsupported for other constants.
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
        low, high = (np.array([int(v)]) for v in (call.attrs.a_min, call.attrs.a_max))
        return call.args[0], Clamp(low, high)
    if name == "nn.relu":
        return call.args[0], Clamp(np.zeros(1, np.int64), whole.high)
    constants = [reader.constant(argument) for argument in call.args]
    if constants[0] is None and constants[1] is None:
        return None
    index = 0 if constants[0] is None else 1
    data = constants[1 - index]
    assert data is not None
    bound = per_channel(data, len(call.checked_type.shape), axis)
    clamp = Clamp(bound, whole.high) if name == "maximum" else Clamp(whole.low, bound)
    return call.args[index], clamp
