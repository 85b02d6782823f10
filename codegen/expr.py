"""Integer expressions of the kernel IR: affine in loop variables and parameters, or clamps of them.

One table maps each operation to its NumPy function and its C template, so that evaluation and
emission cannot drift apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Union

import numpy as np

ExprLike = Union["Expr", int]


_NOTHING: frozenset[str] = frozenset()
_HEX_FROM = 1 << 40
"""Constants from here on carry an address region: C prints them in hexadecimal."""


@dataclass(frozen=True, slots=True)
class CForm:
    """How an operation is printed: its template, how tightly it binds, and its operands must."""

    template: str
    binds: int
    operands: tuple[int, ...]


def _function(name: str) -> CForm:
    return CForm(f"vnpu_{name}({{}}, {{}})", 9, (0, 0))


@dataclass(frozen=True, slots=True)
class Operation:
    """How an operation is evaluated, on arrays and on Python's integers, and printed.

    `natural` is the plain C operator, where C and NumPy agree for a non-negative left operand
    only; `grows` says that non-negative operands give a non-negative result.
    """

    evaluate: Callable[..., Any]
    of_integers: Callable[..., int]
    c_form: CForm
    natural: CForm | None = None
    grows: bool = True


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "add": Operation(np.add, operator.add, CForm("{} + {}", 4, (4, 5))),
        "sub": Operation(np.subtract, operator.sub, CForm("{} - {}", 4, (4, 5)), grows=False),
        "mul": Operation(np.multiply, operator.mul, CForm("{} * {}", 5, (6, 6))),
        "div": Operation(
            np.floor_divide, operator.floordiv, _function("floor_div"), CForm("{} / {}", 5, (5, 6))
        ),
        "mod": Operation(np.mod, operator.mod, _function("floor_mod"), CForm("{} % {}", 5, (5, 6))),
        "shl": Operation(np.left_shift, operator.lshift, _function("shl")),
        "and": Operation(np.bitwise_and, operator.and_, CForm("{} & {}", 2, (6, 6))),
        "min": Operation(np.minimum, min, _function("min")),
        "max": Operation(np.maximum, max, _function("max")),
        "lt": Operation(
            lambda a, b: np.less(a, b).astype(np.int64),
            lambda a, b: int(a < b),
            _function("less"),
        ),
        "select": Operation(
            np.where, lambda c, a, b: a if c else b, CForm("{} ? {} : {}", 1, (3, 3, 3))
        ),
    }
)
"""`div` and `mod` have a positive divisor and round towards minus infinity. The C functions are in
`vnpu.h`."""


Names = Mapping["Expr", str]
_NO_NAMES: Names = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """An integer expression: `op` is an operation, or `const`, `var` (loop) or `param` (kernel)."""

    op: str
    args: tuple[Any, ...]
    _hash: int = field(init=False, repr=False)
    _vars: frozenset[str] = field(init=False, repr=False)
    _params: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Hash and collect names once: lowering asks for both all the time."""
        object.__setattr__(self, "_hash", hash((self.op, self.args)))
        object.__setattr__(self, "_vars", _names("var", self.op, self.args))
        object.__setattr__(self, "_params", _names("param", self.op, self.args))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expr) or self._hash != other._hash:
            return False
        return self.op == other.op and self.args == other.args

    def __reduce__(self) -> tuple[Any, ...]:
        return (Expr, (self.op, self.args))  # hashes of text differ between processes

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

    def __floordiv__(self, other: ExprLike) -> Expr:
        return _binary("div", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return _binary("mod", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return _binary("shl", self, other)

    def __and__(self, other: ExprLike) -> Expr:
        return _binary("and", self, other)

    def evaluate(self, env: Mapping[str, Any], known: dict[int, Any] | None = None) -> Any:
        """Return the value under `env` (name -> int or int64 array; arrays broadcast).

        `known` keeps the values of subexpressions, by identity, from call to call under the same
        `env`; it must not outlive the expressions.
        """
        op = self.op
        if op == "const":
            return self.args[0]
        if op in ("var", "param"):
            return env[self.args[0]]
        known = {} if known is None else known
        value = known.get(id(self))
        if value is None:
            value = known[id(self)] = self._evaluate(env, known)
        return value

    def _evaluate(self, env: Mapping[str, Any], known: dict[int, Any]) -> Any:
        if self.op == "select":
            return self._evaluate_select(env, known)
        left, right = self.args
        a, b = left.evaluate(env, known), right.evaluate(env, known)
        operation = OPERATIONS[self.op]
        if type(a) is int and type(b) is int:
            return operation.of_integers(a, b)
        return operation.evaluate(a, b)

    def _evaluate_select(self, env: Mapping[str, Any], known: dict[int, Any]) -> Any:
        """Evaluate as C does: where one condition decides, only the chosen expression."""
        condition, if_true, if_false = self.args
        chosen = condition.evaluate(env, known) != 0
        if np.ndim(chosen) == 0:
            return (if_true if chosen else if_false).evaluate(env, known)
        return np.where(chosen, if_true.evaluate(env, known), if_false.evaluate(env, known))

    def to_c(self, param_prefix: str = "", binds: int = 0, names: Names = _NO_NAMES) -> str:
        """Return the expression in C; `param_prefix` (`a->`) goes before each parameter.

        It is put in parentheses if it binds less tightly than `binds`. Expressions in `names` are
        printed by name.
        """
        if self.op == "const":
            value = self.args[0]
            return hex(value) if value >= _HEX_FROM else str(value)
        if self.op in ("var", "param"):
            return (param_prefix if self.op == "param" else "") + str(self.args[0])
        if names and self in names:
            return names[self]
        operation = OPERATIONS[self.op]
        form = operation.c_form
        if operation.natural and self.args[0].non_negative:
            form = operation.natural
        operands = [a.to_c(param_prefix, b, names) for a, b in zip(self.args, form.operands)]
        if self.op == "select":
            operands[0] = self.args[0].condition_to_c(param_prefix, names)
        text = form.template.format(*operands)
        return f"({text})" if form.binds < binds else text

    def condition_to_c(
        self, param_prefix: str = "", names: Names = _NO_NAMES, holds: bool = True
    ) -> str:
        """Return the C condition that the expression is not zero, or is zero where not `holds`."""
        if self in names:
            return f"{names[self]} {'!=' if holds else '=='} 0"
        if self.op == "lt":
            left, right = (arg.to_c(param_prefix, 4, names) for arg in self.args)
            return f"{left} {'<' if holds else '>='} {right}"
        if self.op == "select" and holds and self.args[1].constant == 0:
            condition, _, rest = self.args
            text = condition.condition_to_c(param_prefix, names, False)
            if rest.constant:
                return text
            return f"{text} && {rest.condition_to_c(param_prefix, names)}"
        return f"{self.to_c(param_prefix, 4, names)} {'!=' if holds else '=='} 0"

    @property
    def non_negative(self) -> bool:
        """Return whether the value is provably >= 0 (loop variables are, parameters may not be)."""
        if self.op in ("const", "var", "param"):
            return self.op == "var" or (self.op == "const" and self.args[0] >= 0)
        if self.op in ("mod", "lt"):
            return True
        if self.op in ("max", "and"):
            return any(arg.non_negative for arg in self.args)
        parts = self.args[1:] if self.op == "select" else self.args
        return OPERATIONS[self.op].grows and all(arg.non_negative for arg in parts)

    def names(self, kind: str) -> frozenset[str]:
        """Return the names of kind `var` or `param` that the expression reads."""
        return self._vars if kind == "var" else self._params

    def substitute(self, values: Mapping[str, Expr], known: dict[Expr, Expr] | None = None) -> Expr:
        """Return the expression with loop variables and parameters replaced by name.

        `known` keeps what became of subexpressions from call to call with the same `values`.
        """
        if self._vars.isdisjoint(values) and self._params.isdisjoint(values):
            return self
        if self.is_leaf:
            return values[self.args[0]]
        known = {} if known is None else known
        made = known.get(self)
        if made is None:
            args = [arg.substitute(values, known) for arg in self.args]
            made = select(*args) if self.op == "select" else _binary(self.op, *args)
            known[self] = made
        return made

    @property
    def operations(self) -> int:
        """Return how many operations the expression is made of."""
        return 0 if self.is_leaf else 1 + sum(arg.operations for arg in self.args)

    @property
    def is_leaf(self) -> bool:
        """Return whether this is a constant, a variable or a parameter."""
        return self.op in ("const", "var", "param")

    @property
    def constant(self) -> int | None:
        """Return the value if the expression is a constant, else None."""
        return int(self.args[0]) if self.op == "const" else None


def _names(kind: str, op: str, args: tuple[Any, ...]) -> frozenset[str]:
    """Return the variables or parameters that an expression of these parts reads."""
    if op in ("const", "var", "param"):
        return frozenset(args) if op == kind else _NOTHING
    found = _NOTHING
    for arg in args:
        names = arg.names(kind)
        if names and not names <= found:
            found = found | names if found else names
    return found


@lru_cache(maxsize=1 << 14)
def const(value: int) -> Expr:
    """Return a constant."""
    return Expr("const", (int(value),))


@lru_cache(maxsize=1 << 10)
def var(name: str) -> Expr:
    """Return a loop variable."""
    return Expr("var", (name,))


@lru_cache(maxsize=1 << 10)
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


def select(condition: ExprLike, if_true: ExprLike, if_false: ExprLike) -> Expr:
    """Return `if_true` where the condition is not zero, else `if_false`."""
    c, a, b = as_expr(condition), as_expr(if_true), as_expr(if_false)
    if c.constant is not None:
        return a if c.constant else b
    return a if a == b else Expr("select", (c, a, b))


def ceil_div(value: ExprLike, divisor: int) -> Expr:
    """Return value / divisor rounded up, for a non-negative value and a positive divisor."""
    return (as_expr(value) + (divisor - 1)) // divisor


@lru_cache(maxsize=1 << 16)
def _binary(op: str, left: ExprLike, right: ExprLike) -> Expr:
    a, b = as_expr(left), as_expr(right)
    x, y = a.constant, b.constant
    if op in ("div", "mod") and y is not None and y <= 0:
        raise ValueError(f"{op} needs a positive divisor, not {y}")
    if x is not None and y is not None:
        return const(OPERATIONS[op].of_integers(x, y))
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
    if op in ("mul", "div") and a.op == op and y is not None and a.args[1].constant is not None:
        return _binary(op, a.args[0], a.args[1].constant * y)
    if op in ("div", "mod") and x == 0 or op == "mod" and y == 1:
        return const(0)
    if op in ("min", "max") and a == b:
        return a
    if op == "lt" and a == b:
        return const(0)
    return None


def _merge_constants(a: Expr, offset: int) -> Expr:
    """Return a + offset, for an offset that is not 0."""
    if a.op in ("add", "sub") and a.args[1].constant is not None:
        inner = a.args[1].constant if a.op == "add" else -a.args[1].constant
        return a.args[0] + (inner + offset)
    return Expr("sub", (a, const(-offset))) if offset < 0 else Expr("add", (a, const(offset)))
