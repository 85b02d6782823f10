"""Names of the source nodes that Relay calls came from: their spans."""

from __future__ import annotations

import tvm
from tvm import relay

_CONVERSIONS = frozenset({"qnn.quantize", "qnn.dequantize", "qnn.requantize", "cast"})


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
