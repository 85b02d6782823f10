"""Say for each operator of a model where it runs, and why not on the NPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import tvm
from tvm import relax

from runtime_sim.npu import NpuConfig
from tvm_vnpu.relax.build_graph import composite_reader
from tvm_vnpu.relax.names import call_name, profile
from tvm_vnpu.relax.partition import Annotated, annotate_regions, region_functions
from tvm_vnpu.relax.patterns import COVERED_OPERATORS
from tvm_vnpu.relax.rewrite import bindings_of

NO_PATTERN = "the NPU has no pattern for {}"
NOT_QUANTISED = "the model is not quantised: give calibration data"
FLOAT_AROUND = "float32 reaches or leaves it: no quantize and dequantize around it"
LONE_QDQ = "nothing beside it runs on the NPU"


@dataclass(frozen=True, slots=True)
class Placement:
    """One operator: its source node, what it is, where it runs, and why not on the NPU."""

    node: str
    operator: str
    device: str
    region: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All operators of a model in order, NPU regions first met first."""

    placements: tuple[Placement, ...]
    regions: int

    @property
    def cpu_share(self) -> float:
        """Return the share of operators on the CPU, 0 to 1."""
        on_cpu = sum(p.device == "cpu" for p in self.placements)
        return on_cpu / len(self.placements) if self.placements else 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as plain values."""
        return {
            "regions": self.regions,
            "cpu_share": self.cpu_share,
            "operators": [asdict(p) for p in self.placements],
        }


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
    for binding in bindings_of(mod["main"]):
        value = binding.value
        if not isinstance(value, tvm.ir.Call):
            continue
        if isinstance(value.op, tvm.ir.GlobalVar):
            function = mod[value.op]
            label = labels.get(function.attrs["global_symbol"]) if function.attrs else None
            if label is not None:
                placements += _on_npu(function, label)
                continue
        placements.append(_on_cpu(value, annotated))
    return Explanation(tuple(placements), len(regions))


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
