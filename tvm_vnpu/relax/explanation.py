"""Say for each operator of a model where it runs, and why not on the NPU."""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import relax

from runtime_sim.npu import NpuConfig
from tvm_vnpu.frontend.explanation import LONE_QDQ, NO_PATTERN, Explanation
from tvm_vnpu.relax.build_graph import composite_reader
from tvm_vnpu.relax.names import call_name, profile
from tvm_vnpu.relax.partition import Annotated, annotate_regions, region_functions
from tvm_vnpu.relax.patterns import COVERED_OPERATORS
from tvm_vnpu.relax.rewrite import bindings_of, used_vars
from tvm_vnpu.report.placement import Placement

NOT_QUANTISED = "the model is not quantised: give calibration data"
FLOAT_AROUND = "float32 reaches or leaves it: no quantize and dequantize around it"


def explain(
    mod: tvm.IRModule, npu: str | NpuConfig = "vnpu-256", *, rounding: str | None = None
) -> Explanation:
    """Return where each operator would run after `partition_for_vnpu`; raises as it does."""
    annotated = annotate_regions(mod, npu, rounding=rounding)
    return explain_annotated(annotated)


def explain_annotated(annotated: Annotated) -> Explanation:
    """Return where each operator of a partitioned, not yet compiled module runs."""
    mod = annotated.mod
    regions = region_functions(mod)
    labels = {function.attrs["global_symbol"]: label for label, function in regions.items()}
    placements: list[Placement] = []
    on_cpu: dict[str, int] = {}
    for call in _calls_on_data(mod["main"]):
        label = _region_label(mod, call, labels)
        if label is not None:
            placements += _on_npu(mod[call.op], label)
            continue
        placement, name = _on_cpu(call, annotated), call_name(call)
        first = len(placements) if name is None else on_cpu.setdefault(name, len(placements))
        if first == len(placements):
            placements.append(placement)
        else:
            placements[first] = _telling(placements[first], placement)
    return Explanation(tuple(placements), len(regions))


def _calls_on_data(function: relax.Function) -> Iterator[tvm.ir.Call]:
    """Yield the calls of a function but those that only compute constants."""
    constant: set[relax.Var] = set()
    for binding in bindings_of(function):
        value = binding.value
        if isinstance(value, relax.If):
            continue
        if all(var in constant for var in used_vars(value)):
            constant.add(binding.var)
        elif isinstance(value, tvm.ir.Call):
            yield value


def _region_label(mod: tvm.IRModule, call: tvm.ir.Call, labels: dict[str, str]) -> str | None:
    if not isinstance(call.op, tvm.ir.GlobalVar):
        return None
    function = mod[call.op]
    return labels.get(function.attrs["global_symbol"]) if function.attrs else None


def _telling(first: Placement, later: Placement) -> Placement:
    """Return which of a node's calls says why it is on the CPU: one without a pattern, if any."""
    return first if later.operator in COVERED_OPERATORS else later


def _on_npu(function: relax.Function, label: str) -> Iterator[Placement]:
    for binding in bindings_of(function):
        composite = binding.value
        if isinstance(composite, relax.Function):
            reader, root = composite_reader(composite, {})
            name = str(composite.attrs["Composite"])
            for node in reader.names(root):
                yield Placement(node, name, "npu", label, "")


def _on_cpu(call: tvm.ir.Call, annotated: Annotated) -> Placement:
    operator = str(call.op.name) if isinstance(call.op, tvm.ir.Op) else str(call.op)
    node = call_name(call) or operator
    return Placement(node, operator, "cpu", "", _reason(node, operator, annotated))


def _reason(node: str, operator: str, annotated: Annotated) -> str:
    if node in annotated.reasons:
        return annotated.reasons[node]
    if operator in ("relax.quantize", "relax.dequantize"):
        return LONE_QDQ
    if operator not in COVERED_OPERATORS:
        return NO_PATTERN.format(operator)
    return FLOAT_AROUND if profile(annotated.mod) else NOT_QUANTISED
