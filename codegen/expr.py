"""Integer expressions of the kernel IR: affine in loop variables and parameters, or clamps of them.

One table maps each operation to its NumPy function and its C template, so that evaluation and
emission cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Union

import numpy as np

ExprLike = Union["Expr", int]


@dataclass(frozen=True, slots=True)
class Operation:
    """How an operation is evaluated and how it is printed in C."""

    evaluate: Callable[[Any, Any], Any]
    c_template: str


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": Operation(np.add, "({} + {})"),
        "sub": Operation(np.subtract, "({} - {})"),
        "mul": Operation(np.multiply, "{} * {}"),
        "div": Operation(np.floor_divide, "({} / {})"),
        "mod": Operation(np.mod, "({} % {})"),
        "shl": Operation(np.left_shift, "({} << {})"),
        "and": Operation(np.bitwise_and, "({} & {})"),
        "min": Operation(np.minimum, "VNPU_MIN({}, {})"),
        "max": Operation(np.maximum, "VNPU_MAX({}, {})"),
        "lt": Operation(lambda a, b: np.less(a, b).astype(np.int64), "({} < {})"),
    }
)
"""`div` and `mod` are only built with a positive constant divisor and a non-negative dividend,
where C and NumPy agree."""


@dataclass(frozen=True, slots=True)
class Expr:
    """An integer expression: `op` is an operation, or `const`, `var` (loop) or `param` (kernel)."""

    op: str
    args: tuple[Any, ...]

    def __add__(self, other: ExprLike) -> Expr:
        return _binary("add", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return _binary("add", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return _binary("sub", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return _binary("sub", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return _binary("mul", self, other)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Expr:
        return _binary("div", self, other)

    def __mod__(self, other: int) -> Expr:
        return _binary("mod", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return _binary("shl", self, other)

    def __and__(self, other: ExprLike) -> Expr:
        return _binary("and", self, other)

    def evaluate(self, env: Mapping[str, Any]) -> Any:
        """Return the value under `env` (name -> int or int64 array; arrays broadcast)."""
        if self.op == "const":
            return np.int64(self.args[0])
        if self.op in ("var", "param"):
            return env[self.args[0]]
        return OPERATIONS[self.op].evaluate(*(arg.evaluate(env) for arg in self.args))

    def to_c(self) -> str:
        """Return the expression in C."""
        if self.op == "const":
            return str(self.args[0])
        if self.op in ("var", "param"):
            return str(self.args[0])
        left, right = (arg.to_c() for arg in self.args)
        return OPERATIONS[self.op].c_template.format(left, right)

    def names(self, kind: str) -> frozenset[str]:
        """Return the names of kind `var` or `param` that the expression reads."""
        return frozenset(leaf.args[0] for leaf in self.leaves() if leaf.op == kind)

    def leaves(self) -> Iterator[Expr]:
        """Yield the expression's constants, variables and parameters."""
        if self.op in ("const", "var", "param"):
            yield self
            return
        for arg in self.args:
            yield from arg.leaves()

    def substitute(self, values: Mapping[str, Expr]) -> Expr:
        """Return the expression with loop variables and parameters replaced by name."""
        if self.op == "const":
            return self
        if self.op in ("var", "param"):
            return values.get(self.args[0], self)
        return _binary(self.op, *(arg.substitute(values) for arg in self.args))

    @property
    def constant(self) -> int | None:
        """Return the value if the expression is a constant, else None."""
        return int(self.args[0]) if self.op == "const" else None


def const(value: int) -> Expr:
    """Return a constant."""
    return Expr("const", (int(value),))


def var(name: str) -> Expr:
    """Return a loop variable."""
    return Expr("var", (name,))


def param(name: str) -> Expr:
    """Return a kernel parameter."""
    return Expr("param", (name,))


def as_expr(value: ExprLike) -> Expr:
    """Return `value` as an expression."""
    return value if isinstance(value, Expr) else const(value)


def minimum(left: ExprLike, right: ExprLike) -> Expr:
    """Return the smaller of two expressions."""
    return _binary("min", left, right)


def maximum(left: ExprLike, right: ExprLike) -> Expr:
    """Return the larger of two expressions."""
    return _binary("max", left, right)


def clamp(value: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    """Return `value` limited to [low, high]."""
    return minimum(maximum(value, low), high)


def less(left: ExprLike, right: ExprLike) -> Expr:
    """Return 1 where left < right, else 0."""
    return _binary("lt", left, right)


def ceil_div(value: ExprLike, divisor: int) -> Expr:
    """Return value / divisor rounded up, for a non-negative value."""
    return (as_expr(value) + (divisor - 1)) // divisor


def _binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    a, b = as_expr(left), as_expr(right)
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return const(int(OPERATIONS[op].evaluate(x, y)))
    return _simplify(op, a, b, x, y) or Expr(op, (a, b))


def _simplify(op: str, a: Expr, b: Expr, x: int | None, y: int | None) -> Expr | None:
    """Return a simpler equal expression, or None: identities and (e + c1) + c2 only."""
    if op == "add" and x is not None:
        return _binary("add", b, a) if x else b
    if op in ("add", "sub", "shl") and y == 0:
        return a
    if op == "shl" and x == 0:
        return a
    if op == "sub" and a == b:
        return const(0)
    if op in ("add", "sub") and y is not None:
        return _merge_constants(a, y if op == "add" else -y)
    if op == "mul" and (x == 0 or y == 0):
        return const(0)
    if op == "mul" and x == 1:
        return b
    if op in ("mul", "div") and y == 1:
        return a
    if op == "mod" and y == 1:
        return const(0)
    if op in ("min", "max") and a == b:
        return a
    return None


def _merge_constants(a: Expr, offset: int) -> Expr | None:
    if a.op in ("add", "sub") and a.args[1].constant is not None:
        inner = a.args[1].constant if a.op == "add" else -a.args[1].constant
        return a.args[0] + (inner + offset)
    if offset < 0:
        return Expr("sub", (a, const(-offset)))
    return None
