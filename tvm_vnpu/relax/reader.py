"""Read quantised Relax expressions: constants, Q/DQ parameters, producers.

The same reader serves the pattern predicates (on `main`) and the builder (inside a composite
function), because both see bindings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

from codegen.graph import QuantParams
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax.names import call_name
from tvm_vnpu.relax.rewrite import is_call

INTEGER_TYPES = ("int8", "uint8")


@dataclass(frozen=True, slots=True, eq=False)
class Dequantized:
    """A dequantize: what it reads and its parameters. `data` is set for constants."""

    source: relax.Expr
    shape: tuple[int, ...]
    dtype: str
    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int
    data: NDArray[np.generic] | None

    def per_tensor(self) -> QuantParams:
        """Return the parameters of an activation; Unsupported if they are per channel."""
        return per_tensor(self.scale, self.zero_point)


def per_tensor(scale: NDArray[np.float32], zero_point: NDArray[np.int64]) -> QuantParams:
    """Return scalar quantisation parameters; Unsupported if there is one per channel."""
    if np.unique(scale).size != 1 or np.unique(zero_point).size != 1:
        raise Unsupported(
            "activations must have one scale and one zero point", seen=f"{scale.size} scales"
        )
    return QuantParams(float(scale.flat[0]), int(zero_point.flat[0]))


class Reader:
    """Looks expressions up in a set of bindings."""

    def __init__(self, bindings: Mapping[relax.Var, relax.Expr]) -> None:
        """Keep the bindings: variable to value."""
        self.bindings = bindings

    def value(self, expr: relax.Expr) -> relax.Expr:
        """Return what an expression stands for: variables are followed while they are bound."""
        while isinstance(expr, relax.Var) and expr in self.bindings:
            expr = self.bindings[expr]
        return expr

    def origin(self, expr: relax.Expr) -> relax.Expr:
        """Return the outermost variable that an expression is another name of."""
        while isinstance(expr, relax.Var) and isinstance(self.bindings.get(expr), relax.Var):
            expr = self.bindings[expr]
        return expr

    def call(self, expr: relax.Expr, *operators: str) -> tvm.ir.Call | None:
        """Return the call behind an expression if it is of one of `operators`, else None."""
        value = self.value(expr)
        return value if is_call(value, *operators) else None

    def constant(self, expr: relax.Expr) -> NDArray[np.generic] | None:
        """Return a constant's array, or None."""
        value = self.value(expr)
        return value.value.numpy() if isinstance(value, tvm.ir.GenericConst) else None

    def require_constant(self, expr: relax.Expr, what: str) -> NDArray[np.generic]:
        """Return a constant's array; Unsupported if it is computed."""
        array = self.constant(expr)
        if array is None:
            raise Unsupported(f"{what} must be constant")
        return array

    def dequantized(self, expr: relax.Expr) -> Dequantized:
        """Return the dequantize behind an expression; Unsupported if there is none."""
        call = self.call(expr, "relax.dequantize")
        if call is None:
            raise Unsupported("operands must be quantised: float32 reaches the operator")
        scale = self._scales(call.args[1])
        zero_point = self.require_constant(call.args[2], "quantisation zero points")
        data = self.constant(call.args[0])
        return Dequantized(
            source=self.origin(call.args[0]),
            shape=static_shape(call.args[0], data),
            dtype=dtype_of(call.args[0], data),
            scale=np.atleast_1d(scale),
            zero_point=np.atleast_1d(zero_point.astype(np.int64)),
            axis=int(call.attrs.axis),
            data=data,
        )

    def quantize_params(self, call: tvm.ir.Call) -> tuple[QuantParams, str]:
        """Return (parameters, type) of a quantize call."""
        scale = self._scales(call.args[1])
        zero_point = self.require_constant(call.args[2], "quantisation zero points")
        dtype = str(call.attrs.out_dtype)
        check_integer(dtype)
        return per_tensor(scale, zero_point.astype(np.int64)), dtype

    def _scales(self, expr: relax.Expr) -> NDArray[np.float32]:
        scale = self.require_constant(expr, "quantisation scales").astype(np.float32)
        bad = ~(np.isfinite(scale) & (scale > 0))
        if np.any(bad):
            raise Unsupported(
                "quantisation scales must be finite and positive", seen=scale[bad].flat[0]
            )
        return scale

    def names(self, root: relax.Expr) -> tuple[str, ...]:
        """Return the source nodes of a composite, first to last; Q/DQ only where alone."""
        found: dict[str, bool] = {}
        self._collect(root, found)
        operators = tuple(name for name, is_qdq in found.items() if not is_qdq)
        return operators or tuple(found)

    def _collect(self, expr: relax.Expr, found: dict[str, bool]) -> None:
        value = self.value(expr)
        if isinstance(value, relax.Tuple):
            for field in value.fields:
                self._collect(field, found)
        if not isinstance(value, tvm.ir.Call):
            return
        for arg in value.args:
            self._collect(arg, found)
        name = call_name(value)
        if name is not None:
            is_qdq = is_call(value, "relax.quantize", "relax.dequantize")
            found[name] = found.get(name, True) and is_qdq


def check_integer(dtype: str) -> None:
    """Raise Unsupported for a quantised type that no operator computes with."""
    if dtype not in INTEGER_TYPES:
        raise Unsupported(
            "quantised tensors must be of another type",
            seen=dtype,
            limit=", ".join(INTEGER_TYPES),
        )


def static_shape(expr: relax.Expr, data: NDArray[np.generic] | None = None) -> tuple[int, ...]:
    """Return a tensor's shape with the leading axis as 1 where it is symbolic.

    Raises Unsupported for an unknown rank or a symbolic axis that is not the first.
    """
    if data is not None:
        return tuple(data.shape)
    shape = getattr(expr.ty, "shape", None)
    if shape is None:
        raise Unsupported("shapes must be known")
    sizes = []
    for axis, dim in enumerate(shape):
        value = getattr(dim, "value", None)
        if value is None and axis > 0:
            raise Unsupported("only the leading axis may be dynamic", seen=f"axis {axis} is {dim}")
        sizes.append(1 if value is None else int(value))
    return tuple(sizes)


def is_symbolic(expr: relax.Expr) -> bool:
    """Return whether a tensor's leading axis is symbolic."""
    shape = expr.ty.shape
    return len(shape) > 0 and getattr(shape[0], "value", None) is None


def dtype_of(expr: relax.Expr, data: NDArray[np.generic] | None = None) -> str:
    """Return a tensor's element type."""
    return data.dtype.name if data is not None else str(expr.ty.dtype)
