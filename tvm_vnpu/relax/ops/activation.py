"""Activations that fold into requantisation: relu, clip (relu6 is one) and one-sided bounds."""

from __future__ import annotations

import math

import tvm
from tvm import relax

from codegen.graph import QuantParams
from codegen.quantization import clamp_range
from tvm_vnpu.relax.reader import Reader

Bounds = tuple[float | None, float | None]
ONE_SIDED = ("relax.maximum", "relax.minimum")
OPERATORS = ("relax.nn.relu", "relax.clip", *ONE_SIDED)


def strip(reader: Reader, expr: relax.Expr) -> tuple[relax.Expr, Bounds]:
    """Return what a chain of activations reads and its real bounds; None where unbounded."""
    call = reader.call(expr, *OPERATORS)
    bounds = None if call is None else _bounds(reader, call)
    if call is None or bounds is None:
        return expr, (None, None)
    inner, earlier = strip(reader, call.args[0])
    return inner, _then(earlier, bounds)


def _bounds(reader: Reader, call: tvm.ir.Call) -> Bounds | None:
    """Return an activation's bounds; None for a maximum or minimum that is no activation."""
    name = str(call.op.name)
    if name == "relax.nn.relu":
        return 0.0, None
    if name == "relax.clip":
        return scalar(call.args[1]), scalar(call.args[2])
    constant = reader.constant(call.args[1])
    if constant is None or constant.size != 1:
        return None
    bound = float(constant.reshape(-1)[0])
    return (bound, None) if name == "relax.maximum" else (None, bound)


def _then(first: Bounds, second: Bounds) -> Bounds:
    """Return the bounds of clamping by `first`, then by `second`."""
    low, high = (
        (-math.inf if second[0] is None else second[0]),
        (math.inf if second[1] is None else second[1]),
    )
    bounds = [None if value is None else min(max(value, low), high) for value in first]
    return (
        second[0] if bounds[0] is None else bounds[0],
        second[1] if bounds[1] is None else bounds[1],
    )


def scalar(expr: relax.Expr) -> float:
    """Return a scalar argument of a Relax call as a float."""
    value = getattr(expr, "value", expr)
    return float(getattr(value, "value", value))


def clamp(bounds: Bounds, dtype: str, quant: QuantParams) -> tuple[int, int]:
    """Return the integer clamp of an output."""
    return clamp_range(dtype, quant, *bounds)
