"""relay.ext.vnpu: from region functions to modules that TVM runs in process and exports.

A static library alone runs only after export. So the hook returns an LLVM module whose function
calls the region's C entry, imports the static library for the export, and loads the same object
into the process, where the JIT finds the entry.
"""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from importlib import resources
from pathlib import Path

import tvm
from tvm import relay, tir

from codegen.compile_c import compile_object, compile_shared
from codegen.graph import NpuGraph
from codegen.program import NpuProgram, build_program
from runtime_sim.npu import NpuConfig, from_json, load
from tvm_vnpu.frontend import entry_c
from tvm_vnpu.frontend.compiled_regions import CompiledRegion, report_region
from tvm_vnpu.relay import semantics
from tvm_vnpu.relay.build_graph import build_graph, results
from tvm_vnpu.relay.layouts import NCHW
from tvm_vnpu.relay.reader import static_shape
from tvm_vnpu.tuner.history import tuned_schedules

NAME = "vnpu"
SEMANTICS_ATTR, NPU_ATTR = "vnpu.semantics", "vnpu.npu"
LABEL_ATTR, LAYOUT_ATTR = "vnpu.label", "vnpu.layout"
DEFAULT_NPU = "vnpu-256"
_PACKED = 1
"""tvm::CallingConv::kCPackedFunc: the function has TVM's packed signature already."""
_loaded: list[ctypes.CDLL] = []
"""Keeps the objects of this process alive: JIT-compiled modules call into them."""


def region_graph(function: relay.Function) -> tuple[NpuGraph, NpuConfig]:
    """Return the graph of a region function, and its NPU; raises as `build_graph`.

    A region that `partition_for_vnpu` did not make runs as TVM does on the default NPU.
    """
    attrs = function.attrs
    npu: NpuConfig = from_json(str(attrs[NPU_ATTR])) if NPU_ATTR in attrs else load(DEFAULT_NPU)
    told = SEMANTICS_ATTR in attrs
    chosen = semantics.from_text(str(attrs[SEMANTICS_ATTR])) if told else semantics.current()
    layout = str(attrs[LAYOUT_ATTR]) if LAYOUT_ATTR in attrs else NCHW
    label = str(attrs[LABEL_ATTR]) if LABEL_ATTR in attrs else "region"
    return build_graph(label, typed(function), chosen, npu, layout), npu


def region_program(function: relay.Function) -> NpuProgram:
    """Return the program of a region function; raises as `build_graph` and `build_program`.

    Its schedules are those of the tuning history that is applied, else the defaults.
    """
    graph, npu = region_graph(function)
    return build_program(graph, npu, tuned_schedules(graph, npu))


def typed(function: relay.Function) -> relay.Function:
    """Return a region function with the types of all its expressions."""
    bare = relay.Function(function.params, function.body, function.ret_type)
    return relay.transform.InferType()(tvm.IRModule.from_expr(bare))["main"]


@tvm.register_func("relay.ext.vnpu", override=True)
def compile_region(function: relay.Function) -> tvm.runtime.Module:
    """Return the module of one region function; its constants are part of it.

    Raises CompilerError if there is no C compiler.
    """
    symbol = str(function.attrs["global_symbol"])
    program = region_program(function)
    typed_function = typed(function)
    with tempfile.TemporaryDirectory(prefix="vnpu-") as name:
        folder = Path(name)
        blob = folder / "constants.bin"
        blob.write_bytes(program.constants.tobytes())
        entry = f"{symbol}_{_content_hash(program, typed_function)}"
        source = _region_c(entry, program, blob, typed_function)
        target = compile_object(source, folder / "region.o")
        _load(target, symbol, entry, folder)
        library = tvm.runtime.load_static_library(str(target), [entry])
    report_region(CompiledRegion(symbol, program, source))
    module = tvm.build(tvm.IRModule({symbol: _caller(symbol, entry)}), target="llvm")
    module.import_module(library)
    return module


@tvm.register_func("relay.ext.vnpu.constant_updater", override=True)
def constant_updater(function: relay.Function, symbol: str) -> dict[str, tvm.nd.NDArray]:
    """Return no constants: they travel in the region's object."""
    del function, symbol
    return {}


def _content_hash(program: NpuProgram, function: relay.Function) -> str:
    """Return what makes an entry's symbol its own among all that a process may load."""
    digest = hashlib.sha256(program.constants.tobytes())
    digest.update(program.assemble().words.tobytes())
    digest.update(program.npu.to_json().encode())
    digest.update(repr([static_shape(e) for e in (*function.params, *results(function))]).encode())
    return digest.hexdigest()[:16]


def _region_c(entry: str, program: NpuProgram, blob: Path, function: relay.Function) -> str:
    shapes = [static_shape(expr) for expr in (*function.params, *results(function))]
    arguments = [
        entry_c.Argument(tensor, index, shape)
        for index, (tensor, shape) in enumerate(zip(program.arguments, shapes, strict=True))
    ]
    template = (resources.files(__package__) / "region.c.in").read_text(encoding="utf-8")
    return entry_c.region_c(template, entry, program, blob, arguments, len(arguments))


def _load(target: Path, symbol: str, entry: str, folder: Path) -> None:
    """Load the object into this process, its entry visible also under the region's symbol.

    The AOT executor's JIT-compiled code calls the symbol directly.
    """
    signature = "void *a, int *b, int c, void *d, int *e, void *f"
    alias = (
        f"int {entry}({signature});\nint {symbol}({signature});\n"
        f'__attribute__((visibility("default"))) int {symbol}({signature})\n'
        f"{{ return {entry}(a, b, c, d, e, f); }}\n"
    )
    shared = compile_shared(alias, folder / "region.so", flags=(str(target),))
    _loaded.append(ctypes.CDLL(str(shared), mode=ctypes.RTLD_GLOBAL))


def _caller(symbol: str, entry: str) -> tir.PrimFunc:
    """Return a function with TVM's packed signature that calls the C entry."""
    handles = [tir.Var(name, "handle") for name in ("args", "codes")]
    count = tir.Var("count", "int32")
    handles_out = [tir.Var(name, "handle") for name in ("result", "result_code", "resource")]
    params = [*handles, count, *handles_out]
    status = tir.call_extern("int32", entry, *params)
    failed = tir.Evaluate(tir.call_intrin("int32", "tir.tvm_throw_last_error"))
    body = tir.IfThenElse(tir.NE(status, tir.IntImm("int32", 0)), failed, None)
    function = tir.PrimFunc(params, body, ret_type=tvm.ir.PrimType("int32"))
    return function.with_attr(
        {"global_symbol": symbol, "calling_conv": _PACKED, "tir.noalias": False}
    )
