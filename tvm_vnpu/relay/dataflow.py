"""What of a module is partitioned: `main`, where it is plain dataflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import tvm
from tvm import relay

from runtime_sim.errors import VnpuError

NO_DATAFLOW = "the function main must be plain dataflow, and has {}"
ANOTHER_FUNCTION = "only the function main is partitioned"
_SKIP = "SkipOptimization"
_CONTROL: Mapping[type, str] = MappingProxyType(
    {
        relay.If: "an if",
        relay.Match: "a match",
        relay.RefCreate: "a reference",
        relay.RefRead: "a reference",
        relay.RefWrite: "a reference",
    }
)


def check_module(mod: object) -> None:
    """Raise VnpuError unless `mod` is a module with a Relay function `main`."""
    if not isinstance(mod, tvm.IRModule):
        raise VnpuError("a model must be a tvm.IRModule", seen=type(mod).__name__)
    names = sorted(str(var.name_hint) for var in mod.get_global_vars())
    if "main" not in names or not isinstance(mod["main"], relay.Function):
        raise VnpuError("the module has no Relay function main", seen=", ".join(names) or "none")


def control_flow(function: relay.Function) -> str:
    """Return what of a function is no plain dataflow, or ''."""
    found: list[str] = []

    def visit(expr: relay.Expr) -> None:
        attrs = expr.attrs if isinstance(expr, relay.Function) else None
        if isinstance(expr, relay.Function) and not (attrs and "Composite" in attrs):
            found.append("a function inside")
        elif type(expr) in _CONTROL:
            found.append(_CONTROL[type(expr)])

    relay.analysis.post_order_visit(function.body, visit)
    return found[0] if found else ""


def without_lets(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with the names that lets give to values in `main` replaced by these.

    PartitionGraph makes functions with free variables where a let stands between two regions.
    """
    lets: list[relay.Expr] = []

    def visit(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Let):
            lets.append(expr)

    relay.analysis.post_order_visit(mod["main"].body, visit)
    return relay.transform.ToGraphNormalForm()(mod) if lets else mod


def in_main(mod: tvm.IRModule, change: Callable[[tvm.IRModule], tvm.IRModule]) -> tvm.IRModule:
    """Return the module changed by passes that leave its functions beside `main` as they are.

    Those of TIR are taken out meanwhile: PartitionGraph fails at them.
    """
    functions, marked, lowered = {}, set(), {}
    for var, function in mod.functions.items():
        if not isinstance(function, relay.Function):
            lowered[var] = function
            continue
        attrs = function.attrs or {}
        if var.name_hint != "main" and "Compiler" not in attrs and _SKIP not in attrs:
            marked.add(str(var.name_hint))
            function = function.with_attr(_SKIP, tvm.tir.IntImm("int32", 1))
        functions[var] = function
    if not marked and not lowered:
        return change(mod)
    changed = change(tvm.IRModule(functions, mod.type_definitions))
    whole = tvm.IRModule(
        {
            var: function.without_attr(_SKIP) if str(var.name_hint) in marked else function
            for var, function in changed.functions.items()
        },
        mod.type_definitions,
    )
    whole.update(tvm.IRModule(lowered))
    return whole
