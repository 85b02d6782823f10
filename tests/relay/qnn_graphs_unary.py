"""Steps of drawn QNN graphs: operators of one tensor, and softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from tvm import relay

from runtime_sim.numerics import shiftmax_fits
from tvm_vnpu.relay.lookup_tables import FUNCTIONS

if TYPE_CHECKING:
    from tests.relay.qnn_graphs import GraphSource, Value

_OUTPUT_SCALES = {"qnn.sigmoid": 1 / 256, "qnn.tanh": 1 / 128, "qnn.erf": 1 / 128}
_DOUBLING = {"qnn.leaky_relu", "qnn.softmax"}
"""Read their input twice or more: TVM inlines chains of them until its build takes minutes."""
_LARGEST_SCALE = 1.0
"""TVM refuses to lower a softmax of a larger scale."""


def steps(source: GraphSource) -> dict[str, Callable[[], None]]:
    """Return the steps by name."""
    return {
        "unary": partial(unary, source),
        "leaky_relu": partial(leaky_relu, source),
        "softmax": partial(softmax, source),
    }


def unary(source: GraphSource) -> None:
    """Add one of the operators that TVM makes a table for."""
    x, name = _any(source), str(source.pick(*FUNCTIONS))
    scale, zero_point = source.scale(_OUTPUT_SCALES.get(name, x.scale)), source.zero_point(x.dtype)
    make = getattr(relay.qnn.op, name.removeprefix("qnn."))
    expr = make(x.expr, *_constants(x, scale, zero_point))
    _add(source, name, x, expr, scale, zero_point)


def leaky_relu(source: GraphSource) -> None:
    """Add a leaky relu, often with the parameters of its input."""
    x = _any(source)
    if _DOUBLING & set(source.used[-1:]):
        return
    scale, zero_point = source.scale(x.scale), source.zero_point(x.dtype)
    if source.chance(0.3):
        scale, zero_point = x.scale, x.zero_point
    alpha = float(source.pick(0.1, 0.01, 0.5, 0.2, float(source.random.random())))
    expr = relay.qnn.op.leaky_relu(x.expr, alpha, *_constants(x, scale, zero_point))
    _add(source, "qnn.leaky_relu", x, expr, scale, zero_point)


def softmax(source: GraphSource) -> None:
    """Add a softmax along some axis, mostly the channels; TVM has it for int8 alone."""
    x = _any(source)
    if x.dtype != "int8" or x.scale > _LARGEST_SCALE or not _is_defined(x):
        return
    if _DOUBLING & set(source.used[-1:]):
        return
    scale, zero_point = (1 / 256, -128) if source.chance(0.5) else (source.scale(1 / 128), 0)
    axis = source.pick(-1, 1)
    if len(x.extent) == 3 and source.chance(0.8):
        axis = source.channel_axis
    expr = relay.qnn.op.softmax(x.expr, *_constants(x, scale, zero_point), axis=axis)
    _add(source, "qnn.softmax", x, expr, scale, zero_point)


def _is_defined(x: Value) -> bool:
    """Tell whether the sums of TVM's softmax fit int32 along any axis: else it may divide by 0."""
    unit = int(float(np.float32(1) / np.float32(x.scale)) + 0.5)
    return shiftmax_fits(unit, max(x.extent))


def _any(source: GraphSource) -> Value:
    rows = source.rows()
    return rows[-1] if rows and source.chance(0.3) else source.image()


def _constants(x: Value, scale: float, zero_point: int) -> list[relay.Constant]:
    values = (x.scale, x.zero_point, float(np.float32(scale)), zero_point)
    return [relay.const(value) for value in values]


def _add(
    source: GraphSource, name: str, x: Value, expr: relay.Expr, scale: float, zero_point: int
) -> None:
    expr = source.clamped(expr, x.dtype, zero_point)
    scale = float(np.float32(scale))
    source.add(name, replace(x, expr=expr, scale=scale, zero_point=zero_point))
