"""Partition a quantised Relax module: patterns, regions, code generation, and the reasons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import tvm
from tvm import relax
from tvm.relax.transform import FusionPattern, PatternCheckContext

from codegen.profiles import Profile
from codegen.profiles import profile as find_profile
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax import codegen_hook
from tvm_vnpu.relax.build_graph import composite_name
from tvm_vnpu.relax.context import Context
from tvm_vnpu.relax.duplicate_dq import DuplicateDequantize
from tvm_vnpu.relax.names import profile as origin_profile
from tvm_vnpu.relax.patterns import ROWS, PatternRow
from tvm_vnpu.relax.reader import Reader
from tvm_vnpu.relax.rewrite import bindings_of, used_vars
from tvm_vnpu.relax.tell_apart import TellApart

DEFAULT_PROFILE = "integer"


def partition_for_vnpu(
    mod: tvm.IRModule,
    npu: str | NpuConfig = "vnpu-256",
    *,
    rounding: str | None = None,
) -> tvm.IRModule:
    """Return `mod` with its quantised regions compiled for the vNPU; the rest stays for the CPU.

    `npu`: a preset, a .toml file or a configuration. `rounding`: a semantics profile instead of
    the one that the model's origin asks for. `tvm.compile`, `relax.VirtualMachine` and
    `export_library` then work as for any module. Raises VnpuError for an unknown NPU or profile,
    and where no C compiler is found.
    """
    return generate(annotate_regions(mod, npu, rounding=rounding))


@dataclass(frozen=True, slots=True, eq=False)
class Annotated:
    """A module whose regions are functions with Codegen = "vnpu", and why the rest is not."""

    mod: tvm.IRModule
    reasons: Mapping[str, str]
    npu: NpuConfig
    profile: Profile


def annotate_regions(
    mod: tvm.IRModule, npu: str | NpuConfig = "vnpu-256", *, rounding: str | None = None
) -> Annotated:
    """Return the module with region functions, not yet compiled. Raises as `partition_for_vnpu`."""
    config = load(npu)
    if mod.attrs and "external_mods" in mod.attrs:
        raise VnpuError(
            "the module is partitioned already",
            limit="a module without compiled regions",
            fix="partition or explain the module as it was before",
        )
    chosen = find_profile(rounding or origin_profile(mod) or DEFAULT_PROFILE)
    mod = TellApart().apply(DuplicateDequantize().apply(mod))
    predicates = _Predicates(chosen, config)
    mod = _fuse(mod, [row for row in ROWS if not row.border], predicates.accepts)
    beside = _Borders(mod, predicates)
    mod = _fuse(mod, [row for row in ROWS if row.border], beside.accepts)
    mod = relax.transform.MergeCompositeFunctions()(mod)
    return Annotated(_name_regions(mod, chosen, config), predicates.reasons, config, chosen)


def generate(annotated: Annotated) -> tvm.IRModule:
    """Return the module with its regions compiled, ready for `tvm.compile`.

    Raises VnpuError where no C compiler is found.
    """
    compiled = codegen_hook.run_codegen(annotated.mod)
    return compiled.without_attr("const_name_to_constant")


Check = Callable[[PatternRow, PatternCheckContext], bool]


def _fuse(mod: tvm.IRModule, rows: list[PatternRow], accepts: Check) -> tvm.IRModule:
    patterns = [
        FusionPattern(row.composite, shape, {}, lambda ctx, row=row: accepts(row, ctx))
        for row in rows
        for shape in row.shapes()
    ]
    return relax.transform.FuseOpsByPattern(patterns, bind_constants=True, annotate_codegen=False)(
        mod
    )


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a match stays on the CPU: `by_npu`, or because it does not convert at all."""

    reason: str
    by_npu: bool

    def outranks(self, other: _Refusal) -> bool:
        """Return whether this reason says more."""
        return self.by_npu and not other.by_npu


@dataclass(slots=True)
class _Predicates:
    """Accepts a match if converting it gives operators that the NPU takes; keeps why not.

    Shapes are tried from most to least specific, so a node may be refused more than once. What
    the NPU's constraints refuse says more than a shape that does not convert; of two reasons of
    one kind the first stays.
    """

    profile: Profile
    npu: NpuConfig
    _refusals: dict[str, _Refusal] = field(default_factory=dict)

    @property
    def reasons(self) -> dict[str, str]:
        """Return why each refused node is not on the NPU."""
        return {name: refusal.reason for name, refusal in self._refusals.items()}

    def accepts(self, row: PatternRow, ctx: PatternCheckContext) -> bool:
        """Return whether the NPU takes the match."""
        reader = Reader(dict(ctx.matched_bindings.items()))
        refusal = self._refusal(row, reader, ctx.matched_expr)
        for name in reader.names(ctx.matched_expr):
            if refusal is None:
                self._refusals.pop(name, None)
            elif name not in self._refusals or refusal.outranks(self._refusals[name]):
                self._refusals[name] = refusal
        return refusal is None

    def _refusal(self, row: PatternRow, reader: Reader, root: tvm.ir.Call) -> _Refusal | None:
        context = Context(reader, self.profile, self.npu, batch_of=root)
        try:
            row.convert(context, root, row.name)
            problems = [text for op in context.operators for text in op.rejections(self.npu)]
        except Unsupported as mismatch:
            return _Refusal(str(mismatch), by_npu=False)
        except VnpuError as problem:
            return _Refusal(str(problem), by_npu=True)
        return _Refusal("; ".join(problems), by_npu=True) if problems else None


class _Borders:
    """Accepts a quantize or dequantize only beside a composite: a lone one gains nothing."""

    def __init__(self, mod: tvm.IRModule, predicates: _Predicates) -> None:
        self._predicates = predicates
        self._readers: dict[relax.Var, bool] = {}
        self._makers: dict[relax.Var, bool] = {}
        for binding in bindings_of(mod["main"]):
            ours = _calls_composite(mod, binding.value)
            self._makers[binding.var] = ours
            for var in used_vars(binding.value):
                self._readers[var] = self._readers.get(var, False) or ours

    def accepts(self, row: PatternRow, ctx: PatternCheckContext) -> bool:
        """Return whether the match touches a composite and the NPU takes it."""
        root = ctx.matched_expr
        if row.name == "quantize":
            beside = self._readers.get(ctx.value_to_bound_var.get(root), False)
        else:
            beside = self._makers.get(root.args[0], False)
        return beside and self._predicates.accepts(row, ctx)


def _calls_composite(mod: tvm.IRModule, value: relax.Expr) -> bool:
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.GlobalVar):
        return False
    return composite_name(mod[value.op]) is not None


def _name_regions(mod: tvm.IRModule, profile: Profile, npu: NpuConfig) -> tvm.IRModule:
    """Return the module with short region symbols, and what the hook needs as attributes."""
    count = 0
    for variable, function in list(mod.functions.items()):
        attrs = function.attrs
        if not attrs or "Codegen" not in attrs or str(attrs["Codegen"]) != codegen_hook.NAME:
            continue
        function = function.with_attr(codegen_hook.PROFILE_ATTR, profile.name)
        function = function.with_attr(codegen_hook.NPU_ATTR, npu.to_json())
        function = function.with_attr(codegen_hook.LABEL_ATTR, f"region{count}")
        function = function.with_attr("global_symbol", f"vnpu_region{count}")
        mod[variable] = function
        count += 1
    return mod


def region_functions(mod: tvm.IRModule) -> dict[str, relax.Function]:
    """Return the region functions of an annotated module by label, in order."""
    found = {
        str(function.attrs[codegen_hook.LABEL_ATTR]): function
        for function in mod.functions.values()
        if function.attrs and codegen_hook.LABEL_ATTR in function.attrs
    }
    return dict(sorted(found.items(), key=lambda item: int(item[0].removeprefix("region"))))


def reasons_json(annotated: Annotated) -> str:
    """Return the reasons as JSON."""
    return json.dumps(dict(annotated.reasons), sort_keys=True)
