"""Give regions back to the CPU that turn out not to fit the NPU as a whole."""

from __future__ import annotations

import logging
from collections.abc import Set

import tvm
from tvm import relay

from runtime_sim.driver import MAX_ARGUMENTS
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.relay.build_graph import build_graph, composite_name
from tvm_vnpu.relay.codegen_hook import LABEL_ATTR, typed
from tvm_vnpu.relay.region_names import region_functions
from tvm_vnpu.relay.rewrite import rewrite_calls
from tvm_vnpu.relay.semantics import Semantics

_log = logging.getLogger(__name__)


def take_back(mod: tvm.IRModule, chosen: Semantics, npu: NpuConfig, layout: str) -> tvm.IRModule:
    """Return the module without the new regions that cannot run: their operators are main's again.

    Patterns are accepted one by one; a region may still have more arguments than the driver binds.
    """
    refused = set()
    for name, function in region_functions(mod).items():
        problem = "" if LABEL_ATTR in function.attrs else _problem(function, chosen, npu, layout)
        if problem:
            refused.add(name)
            _log.warning("a region stays on the CPU: %s", problem)
    return inlined(mod, refused) if refused else mod


def _problem(function: relay.Function, chosen: Semantics, npu: NpuConfig, layout: str) -> str:
    try:
        graph = build_graph("region", typed(function), chosen, npu, layout)
    except VnpuError as error:
        return str(error)
    arguments = len(graph.inputs) + len(graph.outputs)
    if arguments > MAX_ARGUMENTS:
        return f"it has {arguments} inputs and outputs; limit {MAX_ARGUMENTS}"
    return "; ".join(text for op in graph.operators for text in op.rejections(npu))


def inlined(mod: tvm.IRModule, names: Set[str]) -> tvm.IRModule:
    """Return the module with calls of the named regions replaced by their operators."""
    bodies = {str(var.name_hint): function for var, function in mod.functions.items()}

    def region(_: relay.Call, call: relay.Call) -> relay.Expr:
        name = str(getattr(call.op, "name_hint", ""))
        return _applied(bodies[name], call) if name in names else call

    def composite(_: relay.Call, call: relay.Call) -> relay.Expr:
        return _applied(call.op, call) if composite_name(call) else call

    main = rewrite_calls(rewrite_calls(mod["main"], region), composite)
    kept = {var: f for var, f in mod.functions.items() if str(var.name_hint) not in names}
    result = tvm.IRModule(kept, mod.type_definitions)
    result["main"] = main
    return relay.transform.InferType()(result)


def _applied(function: relay.Function, call: relay.Call) -> relay.Expr:
    return relay.bind(function.body, dict(zip(function.params, call.args, strict=True)))
