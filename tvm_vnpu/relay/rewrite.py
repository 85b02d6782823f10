"""Rewrite the calls of a Relay function without recursion: deep models outgrow Python's stack."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relay

Rewrite = Callable[[relay.Call, relay.Call], relay.Expr]
"""Gets a call as it was (typed) and with its operands rewritten; returns what takes its place."""


def operator_name(expr: relay.Expr) -> str:
    """Return the operator that an expression calls, or ''."""
    is_call = isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op)
    return str(expr.op.name) if is_call else ""


def rewrite_calls(function: relay.Function, rewrite: Rewrite) -> relay.Function:
    """Return the function with each call replaced, operands first; composites stay whole."""
    made: dict[relay.Expr, relay.Expr] = {}

    def visit(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Call):
            made[expr] = rewrite(expr, _with_args(expr, [made.get(a, a) for a in expr.args]))
        elif isinstance(expr, relay.Tuple):
            fields = [made.get(field, field) for field in expr.fields]
            if any(new is not old for new, old in zip(fields, expr.fields, strict=True)):
                made[expr] = relay.Tuple(fields, expr.span)
        elif isinstance(expr, relay.TupleGetItem) and expr.tuple_value in made:
            made[expr] = _field(made[expr.tuple_value], expr)

    relay.analysis.post_order_visit(function.body, visit)
    body = made.get(function.body, function.body)
    return relay.Function(
        function.params, body, None, function.type_params, function.attrs, function.span
    )


def rewrite_main(mod: tvm.IRModule, rewrite: Rewrite) -> tvm.IRModule:
    """Return the module with the calls of `main` replaced, and typed again."""
    result = tvm.IRModule(mod.functions, mod.type_definitions)
    result["main"] = rewrite_calls(mod["main"], rewrite)
    return relay.transform.InferType()(result)


def calls_of(function: relay.Function) -> list[relay.Call]:
    """Return the calls of a function, operands first, those in composites included."""
    found: list[relay.Call] = []

    def visit(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Call):
            found.append(expr)

    relay.analysis.post_order_visit(function.body, visit)
    return found


def _field(value: relay.Expr, expr: relay.TupleGetItem) -> relay.Expr:
    """Return a field of what a tuple has become."""
    if isinstance(value, relay.Tuple):
        return value.fields[expr.index]
    return relay.TupleGetItem(value, expr.index, expr.span)


def _with_args(call: relay.Call, args: list[relay.Expr]) -> relay.Call:
    if all(new is old for new, old in zip(args, call.args, strict=True)):
        return call
    return relay.Call(call.op, args, call.attrs, call.type_args, call.span)
