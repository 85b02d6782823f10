"""Activations that fold into requantisation: relu and clip (relu6 is a clip)."""

from __future__ import annotations

from tvm import relax

from codegen.graph import QuantParams
from codegen.quantization import clamp_range
from tvm_vnpu.relax.reader import Reader

Bounds = tuple[float | None, float | None]
OPERATORS = ("relax.nn.relu", "relax.clip")


def strip(reader: Reader, expr: relax.Expr) -> tuple[relax.Expr, Bounds]:
    """Return what an activation reads and its real bounds; no bounds where there is none."""
    call = reader.call(expr, *OPERATORS)
    if call is None:
        return expr, (None, None)
    if str(call.op.name) == "relax.nn.relu":
        return call.args[0], (0.0, None)
    return call.args[0], (scalar(call.args[1]), scalar(call.args[2]))


def scalar(expr: relax.Expr) -> float:
    """Return a scalar argument of a Relax call as a float."""
    value = getattr(expr, "value", expr)
    return float(getattr(value, "value", value))


def clamp(bounds: Bounds, dtype: str, quant: QuantParams) -> tuple[int, int]:
    """Return the integer clamp of an output."""
    return clamp_range(dtype, quant, *bounds)
