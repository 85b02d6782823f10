"""A BlockBuilder that gives every call it binds the name of the node being imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import tvm
from tvm import relax

from tvm_vnpu.relax.names import call_name, identifier, with_name


def is_operator_call(expr: object) -> TypeGuard[tvm.ir.Call]:
    """Return whether `expr` is a call of a Relax operator (shape arithmetic is none)."""
    return (
        isinstance(expr, tvm.ir.Call)
        and isinstance(expr.op, tvm.ir.Op)
        and str(expr.op.name).startswith("relax.")
    )


@dataclass(frozen=True, slots=True)
class ZeroPad:
    """Zero padding of the spatial axes of `data`: all begins, then all ends."""

    data: relax.Expr
    pads: tuple[int, ...]


class NamingBlockBuilder(relax.BlockBuilder):
    """Bind nested calls one by one, each with the current node's name in its span.

    `zero_pads` remembers the Pad nodes, by name, that a convolution can take over.
    """

    def __init__(self) -> None:
        """Start with no current node."""
        super().__init__()
        self.node_name = ""
        self._calls: list[tuple[relax.Expr, relax.Var]] = []
        self.zero_pads: dict[str, ZeroPad] = {}

    def begin_node(self, name: str) -> None:
        """Name what is bound from now on after a node; an empty name ends it."""
        self.node_name = name
        self._calls.clear()

    def emit(self, expr: relax.Expr, name_hint: str = "") -> relax.Var:
        """Bind an expression to a variable named `name_hint`, or after node and operator."""
        named = self._named(expr)
        return super().emit(named, identifier(name_hint or self._inner_name(named)))

    def normalize(self, expr: relax.Expr) -> relax.Expr:
        """Bind nested calls and infer the type; the outermost call stays unbound."""
        return super().normalize(self._named(expr))

    def _inner_name(self, expr: relax.Expr) -> str:
        if not self.node_name:
            return "value"
        if not is_operator_call(expr):
            return f"{self.node_name}_item"
        operator = str(expr.op.name).rsplit(".", 1)[-1]
        return f"{self.node_name}_{operator}"

    def _named(self, expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.TupleGetItem):
            return relax.TupleGetItem(self._bound(expr.tuple_value), expr.index)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._bound(field) for field in expr.fields])
        if not is_operator_call(expr):
            return expr
        args = [self._bound(arg) for arg in expr.args]
        if all(new.same_as(old) for new, old in zip(args, expr.args)) and call_name(expr):
            return expr
        call = tvm.ir.Call(expr.op, args, expr.attrs, list(expr.ty_args), expr.span)
        return with_name(call, self.node_name) if self.node_name else call

    def _bound(self, expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.TupleGetItem):
            return self.emit(expr)
        if not is_operator_call(expr):
            return expr
        for call, var in self._calls:  # a call used twice is bound once
            if call.same_as(expr):
                return var
        var = self.emit(expr)
        self._calls.append((expr, var))
        return var
