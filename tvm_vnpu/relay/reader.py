"""Read quantised Relay expressions: constants, quantisation parameters, shapes, source names.

The same reader serves the pattern predicates (on `main`, where operands are whole graphs) and the
builder (inside a composite function, whose parameters stand for the caller's expressions).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relay

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import QuantParams
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.rewrite import operator_name

INTEGERS = tuple(INTEGER_LIMITS)


class Reader:
    """Looks through the parameters of a composite function."""

    def __init__(self, arguments: Mapping[relay.Var, relay.Expr] | None = None) -> None:
        """Keep what the parameters stand for."""
        self.arguments = dict(arguments or {})

    def value(self, expr: relay.Expr) -> relay.Expr:
        """Return what an expression stands for in the caller."""
        while isinstance(expr, relay.Var) and expr in self.arguments:
            expr = self.arguments[expr]
        return expr

    def call(self, expr: relay.Expr, *operators: str) -> relay.Call | None:
        """Return the expression if it is a call of one of `operators`, else None."""
        value = self.value(expr)
        return value if operator_name(value) in operators else None

    def require(self, expr: relay.Expr, *operators: str) -> relay.Call:
        """Return the call of one of `operators`; Unsupported if it is something else."""
        call = self.call(expr, *operators)
        if call is None:
            raise Unsupported("the composite holds another operator", seen=operators[0])
        return call

    def constant(self, expr: relay.Expr) -> NDArray[np.generic] | None:
        """Return a constant's array, or None."""
        value = self.value(expr)
        return value.data.numpy() if isinstance(value, relay.Constant) else None

    def require_constant(self, expr: relay.Expr, what: str) -> NDArray[np.generic]:
        """Return a constant's array; Unsupported if it is computed."""
        array = self.constant(expr)
        if array is None:
            raise Unsupported(f"{what} must be constant")
        return array

    def scales(self, expr: relay.Expr) -> NDArray[np.float32]:
        """Return quantisation scales as a vector; Unsupported if one is not above 0."""
        scale = self.require_constant(expr, "quantisation scales").astype(np.float32).reshape(-1)
        if not np.all(np.isfinite(scale) & (scale > 0)):
            raise Unsupported("quantisation scales must be above 0", seen=float(scale.min()))
        return scale

    def zero_points(self, expr: relay.Expr) -> NDArray[np.int64]:
        """Return quantisation zero points as a vector."""
        array = self.require_constant(expr, "quantisation zero points")
        return array.astype(np.int64).reshape(-1)

    def quant(self, scale: relay.Expr, zero_point: relay.Expr) -> QuantParams:
        """Return the parameters of an activation; Unsupported if they are per channel."""
        scales, zero_points = self.scales(scale), self.zero_points(zero_point)
        if np.unique(scales).size != 1 or np.unique(zero_points).size != 1:
            raise Unsupported(
                "activations must have one scale and one zero point", seen=f"{scales.size} scales"
            )
        return QuantParams(float(scales[0]), int(zero_points[0]))


def static_shape(expr: relay.Expr) -> tuple[int, ...]:
    """Return a tensor's shape; Unsupported for a dynamic one or for no tensor."""
    kind = expr.checked_type
    if not isinstance(kind, relay.TensorType):
        raise Unsupported("operands must be tensors", seen=type(kind).__name__)
    if not all(isinstance(size, tvm.tir.IntImm) for size in kind.shape):
        raise Unsupported("shapes must be static", seen=str(kind.shape))
    return tuple(int(size) for size in kind.shape)


def known_shape(expr: relay.Expr) -> tuple[int, ...] | None:
    """Return a tensor's shape, or None for a dynamic one and for no tensor."""
    try:
        return static_shape(expr)
    except Unsupported:
        return None


def dtype_of(expr: relay.Expr) -> str:
    """Return a tensor's element type."""
    return str(expr.checked_type.dtype)


def integer_type(expr: relay.Expr) -> str:
    """Return a tensor's element type; Unsupported unless it is int8 or uint8."""
    dtype = dtype_of(expr)
    if dtype not in INTEGERS:
        raise Unsupported("quantised tensors must be int8 or uint8", seen=dtype)
    return dtype


def check_zero_points(dtype: str, zero_points: NDArray[np.int64]) -> None:
    """Raise Unsupported for zero points that a type of INTEGERS does not have."""
    if dtype not in INTEGERS:
        return
    low, high = INTEGER_LIMITS[dtype]
    outside = zero_points[(zero_points < low) | (zero_points > high)]
    if outside.size:
        raise Unsupported(
            f"zero points must be values of {dtype}", seen=int(outside[0]), limit=f"{low}..{high}"
        )
