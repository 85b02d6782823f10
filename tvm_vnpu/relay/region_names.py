"""Give regions their attributes and symbols that no other module of a process has."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relay

from tvm_vnpu.relay.codegen_hook import LABEL_ATTR, NAME
from tvm_vnpu.relay.rewrite import calls_of, rewrite_calls

_MASK = 2**64 - 1


def region_functions(mod: tvm.IRModule) -> dict[str, relay.Function]:
    """Return the region functions of a partitioned module by global name, in order of calls."""
    targets = [call.op for call in calls_of(mod["main"])]
    order = [str(op.name_hint) for op in targets if isinstance(op, tvm.ir.GlobalVar)]
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

    def renamed(_: relay.Call, call: relay.Call) -> relay.Expr:
        target = fresh.get(str(getattr(call.op, "name_hint", "")))
        if target is None:
            return call
        return relay.Call(target, call.args, call.attrs, call.type_args, call.span)

    for variable, function in mod.functions.items():
        if str(variable.name_hint) not in fresh:
            is_main = variable.name_hint == "main"  # nothing else calls regions
            functions[variable] = rewrite_calls(function, renamed) if is_main else function
    return relay.transform.InferType()(tvm.IRModule(functions, mod.type_definitions))
