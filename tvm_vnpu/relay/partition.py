"""Partition a quantised Relay module: patterns, regions and what their compilation needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import DFPattern
from tvm.relay.op.contrib.register import register_pattern_table

from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.relay import codegen_hook, semantics
from tvm_vnpu.relay.build_graph import composite_name
from tvm_vnpu.relay.context import Context, NotOneBatch
from tvm_vnpu.relay.dataflow import NO_DATAFLOW, check_module, control_flow, in_main
from tvm_vnpu.relay.layouts import DATA_LAYOUTS, NCHW
from tvm_vnpu.relay.patterns import ROWS, PatternRow
from tvm_vnpu.relay.prepare import prepare
from tvm_vnpu.relay.reader import Reader
from tvm_vnpu.relay.region_names import name_regions, region_functions
from tvm_vnpu.relay.semantics import Semantics
from tvm_vnpu.relay.take_back import take_back

_log = logging.getLogger(__name__)
Check = Callable[[relay.Call], bool]
Entry = tuple[str, DFPattern, Check]


def partition_for_vnpu(
    mod: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray] | None = None,
    npu: str | NpuConfig = codegen_hook.DEFAULT_NPU,
    *,
    rounding: str | None = None,
) -> tvm.IRModule:
    """Return `mod` with its quantised regions marked for the vNPU; the rest stays for the CPU.

    `params` are bound as constants. `npu`: a preset, a .toml file or a configuration. `rounding`:
    a semantics profile instead of TVM's own, which takes the rounding and the compute type from
    the requantize configuration in force. `relay.build` then compiles the regions. Raises
    VnpuError for an unknown NPU or profile, and as `prepare` does.
    """
    config, chosen = load(npu), semantics.current(rounding)
    check_module(mod)
    earlier = region_functions(mod)
    mod = prepare(mod, params)
    held = control_flow(mod["main"])
    if held:
        _log.warning("the model stays on the CPU: %s", NO_DATAFLOW.format(held))
        return mod
    layout = module_layout(mod)
    predicate = Predicate(chosen, config, layout)
    mod = in_main(mod, lambda own: _regions(merge_composites(own, predicate)))
    mod = take_back(mod, chosen, config, layout)
    attrs = {
        codegen_hook.SEMANTICS_ATTR: chosen.to_text(),
        codegen_hook.NPU_ATTR: config.to_json(),
        codegen_hook.LAYOUT_ATTR: layout,
    }
    return name_regions(mod, attrs, earlier)


class Predicate:
    """Accepts a match if converting it gives operators that the NPU takes."""

    def __init__(self, chosen: Semantics, npu: NpuConfig, layout: str) -> None:
        """Keep what conversion depends on."""
        self.semantics, self.npu, self.layout = chosen, npu, layout

    def reason(self, row: PatternRow, root: relay.Call) -> str:
        """Return why a match stays on the CPU, or '' where the NPU takes it."""
        try:
            context = self._converted(row, root, whole=False)
        except NotOneBatch as mismatch:
            reason = str(mismatch)
            try:
                context = self._converted(row, root, whole=True)
            except VnpuError:
                return reason
        except VnpuError as mismatch:  # a scale that no multiplier has is a reason, too
            return str(mismatch)
        reasons = (text for op in context.operators for text in op.rejections(self.npu))
        return "; ".join(dict.fromkeys(reasons))

    def _converted(self, row: PatternRow, root: relay.Call, whole: bool) -> Context:
        context = Context(Reader(), self.semantics, self.npu, self.layout, whole=whole)
        row.convert(context, root, row.name)
        return context

    def accepts(self, row: PatternRow, root: relay.Call) -> bool:
        """Return whether the NPU takes a match."""
        return not self.reason(row, root)

    def entries(self, rows: list[PatternRow]) -> list[Entry]:
        """Return the rows as MergeComposite takes them."""
        return [
            (row.composite, shape, partial(self.accepts, row))
            for row in rows
            for shape in row.shapes()
        ]


@register_pattern_table(codegen_hook.NAME)
def pattern_table() -> list[Entry]:
    """Return all patterns for the default NPU under the requantize configuration in force."""
    predicate = Predicate(semantics.current(), load(codegen_hook.DEFAULT_NPU), NCHW)
    return predicate.entries(list(ROWS))


def merge_composites(mod: tvm.IRModule, predicate: Predicate) -> tvm.IRModule:
    """Return the module with composites: operators first, then conversions beside them."""
    mod = relay.transform.InferType()(mod)
    mod = _merge(mod, predicate.entries([row for row in ROWS if not row.border]))
    read = _read_by_composites(mod)

    def accepts(own: Check, root: relay.Call) -> bool:
        reads = any(composite_name(argument) for argument in root.args)
        return (reads or root in read) and own(root)

    entries = predicate.entries([row for row in ROWS if row.border])
    border: list[Entry] = [(name, shape, partial(accepts, own)) for name, shape, own in entries]
    return _merge(mod, border)


def _merge(mod: tvm.IRModule, entries: list[Entry]) -> tvm.IRModule:
    merged = relay.transform.MergeComposite(entries)(mod)
    return relay.transform.InferType()(merged)


def _read_by_composites(mod: tvm.IRModule) -> set[relay.Expr]:
    """Return what composites read: a quantize among it is worth a place in their region."""
    found: set[relay.Expr] = set()

    def visit(expr: relay.Expr) -> None:
        if composite_name(expr):
            found.update(expr.args)

    relay.analysis.post_order_visit(mod["main"], visit)
    return found


def _regions(mod: tvm.IRModule) -> tvm.IRModule:
    return tvm.transform.Sequential(
        [
            relay.transform.AnnotateTarget(codegen_hook.NAME, include_non_call_ops=False),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
            relay.transform.InferType(),
        ]
    )(mod)


def module_layout(mod: tvm.IRModule) -> str:
    """Return the layout of the module's first operator that has one, NCHW where none has."""
    layouts: list[str] = []

    def visit(expr: relay.Expr) -> None:
        attrs = getattr(expr, "attrs", None)
        for key in ("data_layout", "layout"):
            value = str(getattr(attrs, key, "")) if attrs is not None else ""
            if value in DATA_LAYOUTS:
                layouts.append(value)

    relay.analysis.post_order_visit(mod["main"], visit)
    return layouts[0] if layouts else NCHW
