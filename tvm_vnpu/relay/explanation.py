"""Say for each operator of a Relay model where it runs, and why not on the NPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tvm
from tvm import relay

from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.frontend.explanation import LONE_QDQ, NO_PATTERN, Explanation
from tvm_vnpu.relay import codegen_hook, semantics
from tvm_vnpu.relay.build_graph import composite_calls, composite_name
from tvm_vnpu.relay.dataflow import ANOTHER_FUNCTION, NO_DATAFLOW, control_flow
from tvm_vnpu.relay.names import call_name, source_names
from tvm_vnpu.relay.partition import Predicate, module_layout, partition_for_vnpu
from tvm_vnpu.relay.patterns import ROWS, PatternRow
from tvm_vnpu.relay.region_names import region_functions
from tvm_vnpu.relay.rewrite import operator_name
from tvm_vnpu.report.placement import Placement

REGION_REFUSED = (
    "what it would be part of is refused as a whole: a region that does not fit the NPU, or a match"
    " whose inside has other readers"
)
_QDQ = ("qnn.quantize", "qnn.dequantize")


def explain(
    mod: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray] | None = None,
    npu: str | NpuConfig = codegen_hook.DEFAULT_NPU,
    *,
    rounding: str | None = None,
) -> Explanation:
    """Return where each operator would run after `partition_for_vnpu`; raises as it does."""
    config, chosen = load(npu), semantics.current(rounding)
    mod = partition_for_vnpu(mod, params, npu, rounding=rounding)
    regions = region_functions(mod)
    order, held = _in_order(mod["main"]), control_flow(mod["main"])
    predicate = Predicate(chosen, config, module_layout(mod))
    reasons = dict.fromkeys(order, NO_DATAFLOW.format(held)) if held else _reasons(order, predicate)
    placements: list[Placement] = []
    named: set[str] = set()
    for call in order:
        if isinstance(call.op, tvm.ir.GlobalVar):
            name = str(call.op.name_hint)
            placements += _on_npu(regions[name]) if name in regions else [_elsewhere(name)]
            continue
        node = call_name(call)
        if node not in named:
            placements.append(_on_cpu(call, node, reasons))
        named |= {node} - {""}
    return Explanation(tuple(placements), len(regions))


def _in_order(function: relay.Function) -> list[relay.Call]:
    """Return the calls of operators and functions in a function, operands first."""
    found: list[relay.Call] = []

    def visit(expr: relay.Expr) -> None:
        is_call = isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.GlobalVar)
        if is_call or operator_name(expr):
            found.append(expr)

    relay.analysis.post_order_visit(function.body, visit)
    return found


def _on_npu(function: relay.Function) -> Iterator[Placement]:
    label = str(function.attrs[codegen_hook.LABEL_ATTR])
    for call in composite_calls(function):
        composite = composite_name(call)
        for node in source_names(call.op.body) or (composite,):
            yield Placement(node, composite, "npu", label, "")


def _elsewhere(name: str) -> Placement:
    return Placement(name, "function", "cpu", "", ANOTHER_FUNCTION)


def _on_cpu(call: relay.Call, node: str, reasons: Mapping[relay.Expr, str]) -> Placement:
    operator = operator_name(call)
    form = next((row.form for row in ROWS if row.form and operator in row.anchors), "")
    default = LONE_QDQ if operator in _QDQ else form or NO_PATTERN.format(operator)
    reason = reasons.get(call, default) or (LONE_QDQ if operator in _QDQ else REGION_REFUSED)
    return Placement(node or operator, operator, "cpu", "", reason)


def _reasons(order: list[relay.Call], predicate: Predicate) -> dict[relay.Expr, str]:
    """Return why what matches a pattern is on the CPU: the largest match says it."""
    reasons: dict[relay.Expr, str] = {}
    table = [(row, shape) for row in ROWS if not row.folds for shape in row.shapes()]
    for call in reversed(order):
        for row, shape in table:
            if call in reasons or not operator_name(call) or not shape.match(call):
                continue
            reason = predicate.reason(row, call)
            for part in _chain(call, row):
                reasons.setdefault(part, reason)
    return reasons


def _chain(root: relay.Call, row: PatternRow) -> Iterator[relay.Call]:
    """Yield the calls of a match from its root down to its anchor."""
    expr: relay.Expr = root
    while operator_name(expr):
        yield expr
        if operator_name(expr) in row.anchors:
            return
        expr = next((arg for arg in expr.args if operator_name(arg)), expr.args[0])
