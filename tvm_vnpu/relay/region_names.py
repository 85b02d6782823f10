"""Give regions their attributes and symbols that no other module of a process has."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relay

from tvm_vnpu.relay.codegen_hook import LABEL_ATTR, NAME

_MASK = 2**64 - 1


def region_functions(mod: tvm.IRModule) -> dict[str, relay.Function]:
    """Return the region functions of a partitioned module by global name, in order of calls."""
    order: list[str] = []

    def visit(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.GlobalVar):
            order.append(str(expr.op.name_hint))

    relay.analysis.post_order_visit(mod["main"], visit)
    functions = {str(var.name_hint): function for var, function in mod.functions.items()}
    return {name: functions[name] for name in dict.fromkeys(order) if is_region(functions[name])}


def is_region(function: object) -> bool:
    """Return whether a function is a region of the vNPU."""
    attrs = getattr(function, "attrs", None)
    return attrs is not None and "Compiler" in attrs and str(attrs["Compiler"]) == NAME


def name_regions(
    mod: tvm.IRModule, attrs: Mapping[str, str], earlier: Mapping[str, relay.Function]
) -> tvm.IRModule:
    """Return the module with its new regions renamed to `vnpu_<hash>_<index>` and `attrs` set.

    The hash covers a region's content: two modules of one process have equal symbols only for
    equal regions. `earlier`: regions of an earlier partition, which TVM has renamed on the way;
    they become what they were.
    """
    fresh: dict[str, tvm.ir.GlobalVar] = {}
    functions: dict[tvm.ir.GlobalVar, relay.Function] = {}
    count = len(earlier)
    for name, function in region_functions(mod).items():
        if LABEL_ATTR in function.attrs:
            own = next(old for old in earlier if name.endswith(old))
            variable, function = tvm.ir.GlobalVar(own), earlier[own]
        else:
            function = function.with_attr({**attrs, LABEL_ATTR: f"region{count}"})
            digest = tvm.ir.structural_hash(function.with_attr("global_symbol", "")) & _MASK
            variable = tvm.ir.GlobalVar(f"vnpu_{digest:016x}_{count}")
            function = function.with_attr("global_symbol", variable.name_hint)
            count += 1
        fresh[name] = variable
        functions[variable] = function
    for variable, function in mod.functions.items():
        if str(variable.name_hint) not in fresh:
            functions[variable] = _Rename(fresh).visit(function)
    return relay.transform.InferType()(tvm.IRModule(functions, mod.type_definitions))


class _Rename(relay.ExprMutator):
    def __init__(self, fresh: Mapping[str, tvm.ir.GlobalVar]) -> None:
        super().__init__()
        self.fresh = fresh

    def visit_global_var(self, gvar: tvm.ir.GlobalVar) -> relay.Expr:
        return self.fresh.get(str(gvar.name_hint), gvar)
