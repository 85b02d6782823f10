"""Names of the source nodes that Relay calls came from: their spans."""

from __future__ import annotations

from types import MappingProxyType

import tvm
from tvm import relay

from tvm_vnpu.relay.rewrite import calls_of, operator_name, rewrite_main

_CONVERSIONS = frozenset({"qnn.quantize", "qnn.dequantize", "qnn.requantize", "cast"})
_FAMILIES = MappingProxyType(
    {
        "nn.conv2d": "qnn.conv2d", "nn.dense": "qnn.dense", "add": "qnn.add",
        "nn.bias_add": "nn.bias_add", "multiply": "qnn.mul", "subtract": "qnn.subtract",
        "concatenate": "qnn.concatenate", "nn.avg_pool2d": "qnn.avg_pool2d",
        "nn.global_avg_pool2d": "nn.global_avg_pool2d", "nn.max_pool2d": "nn.max_pool2d",
        "mean": "mean", "reshape": "reshape", "maximum": "maximum", "minimum": "minimum",
        "nn.relu": "nn.relu", "clip": "clip",
    }
)  # fmt: skip
"""Operator -> what FakeQuantizationToInteger makes of it."""


def call_name(call: relay.Call) -> str:
    """Return the source node of a call, or ''."""
    span = call.span
    return str(span.source_name.name) if isinstance(span, tvm.ir.Span) else ""


def source_names(root: relay.Expr) -> tuple[str, ...]:
    """Return the source nodes of a composite, first to last; conversions only where alone."""
    found: dict[str, bool] = {}
    _collect(root, found)
    operators = tuple(name for name, is_conversion in found.items() if not is_conversion)
    return operators or tuple(found)


def _collect(expr: relay.Expr, found: dict[str, bool]) -> None:
    if isinstance(expr, relay.Tuple):
        for item in expr.fields:
            _collect(item, found)
    if not isinstance(expr, relay.Call) or not isinstance(expr.op, tvm.ir.Op):
        return
    for argument in expr.args:
        _collect(argument, found)
    name = call_name(expr)
    if name:
        is_conversion = str(expr.op.name) in _CONVERSIONS
        found[name] = found.get(name, True) and is_conversion


def keep_names(before: tvm.IRModule, after: tvm.IRModule) -> tvm.IRModule:
    """Return `after` with the names that its calls had in `before`, which the pass between drops.

    The pass keeps the order of calls, so the n-th call of a family is the n-th before; a family
    whose number of calls has changed keeps no names.
    """
    old, new = _by_family(before["main"]), _by_family(after["main"])
    spans: dict[relay.Expr, tvm.ir.Span] = {}
    for family, calls in new.items():
        sources = old.get(family, [])
        if len(sources) == len(calls):
            spans |= {call: was.span for call, was in zip(calls, sources, strict=True)}

    def named(was: relay.Call, call: relay.Call) -> relay.Expr:
        span = spans.get(was)
        if span is None or isinstance(was.span, tvm.ir.Span):
            return call
        return relay.Call(call.op, call.args, call.attrs, call.type_args, span)

    return rewrite_main(after, named)


def _by_family(function: relay.Function) -> dict[str, list[relay.Call]]:
    families: dict[str, list[relay.Call]] = {}
    for call in calls_of(function):
        name = operator_name(call)
        family = _FAMILIES.get(name, name)
        if family in _FAMILIES.values():
            families.setdefault(family, []).append(call)
    return families
