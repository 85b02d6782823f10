"""relax.ext.vnpu: from region functions to static libraries that TVM links into the model."""

from __future__ import annotations

import tempfile
from contextvars import ContextVar
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax

from codegen.compile_c import compile_object
from codegen.graph import NpuGraph
from codegen.profiles import profile
from codegen.program import NpuProgram, build_program
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig, from_json
from tvm_vnpu.frontend.compiled_regions import CompiledRegion, report_region
from tvm_vnpu.relax.build_graph import build_graph
from tvm_vnpu.relax.entry_c import region_c
from tvm_vnpu.tuner.history import tuned_schedules

NAME = "vnpu"
PROFILE_ATTR, NPU_ATTR, LABEL_ATTR = "vnpu.profile", "vnpu.npu", "vnpu.label"
_failures: ContextVar[list[VnpuError] | None] = ContextVar("vnpu_failures", default=None)


def region_graph(function: relax.Function) -> tuple[NpuGraph, NpuConfig]:
    """Return the graph of a region function, and its NPU; raises as `build_graph`."""
    label = str(function.attrs[LABEL_ATTR])
    npu: NpuConfig = from_json(str(function.attrs[NPU_ATTR]))
    return build_graph(label, function, profile(str(function.attrs[PROFILE_ATTR])), npu), npu


def region_program(function: relax.Function) -> NpuProgram:
    """Return the program of a region function; raises as `build_graph` and `build_program`.

    Its schedules are those of the tuning history that is applied, else the defaults.
    """
    graph, npu = region_graph(function)
    return build_program(graph, npu, tuned_schedules(graph, npu))


def compile_regions(
    functions: list[relax.Function], options: object, constant_names: object
) -> list[tvm.runtime.Module]:
    """Return one static library per region function; constants are part of it.

    Raises CompilerError if there is no C compiler.
    """
    del options, constant_names
    try:
        return [_compile_region(function) for function in functions]
    except VnpuError as error:
        failures = _failures.get()
        if failures is not None:
            failures.append(error)
        raise


def _compile_region(function: relax.Function) -> tvm.runtime.Module:
    symbol = str(function.attrs["global_symbol"])
    program = region_program(function)
    with tempfile.TemporaryDirectory(prefix="vnpu-") as name:
        folder = Path(name)
        blob = folder / "constants.bin"
        blob.write_bytes(program.constants.tobytes())
        source = region_c(symbol, program, blob, _shape_arguments(function))
        target = compile_object(source, folder / "region.o")
        module = tvm.runtime.load_static_library(str(target), [symbol])
    report_region(CompiledRegion(symbol, program, source))
    return module


def _shape_arguments(function: relax.Function) -> tuple[int, ...]:
    """Return the positions of parameters that are shapes: a symbolic reshape brings one along."""
    params = enumerate(function.params)
    return tuple(index for index, param in params if isinstance(param.ty, relax.ShapeType))


def run_codegen(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with its regions compiled; a VnpuError of the hook comes out as itself.

    TVM turns exceptions that cross its C++ code into RuntimeError.
    """
    failures: list[VnpuError] = []
    token = _failures.set(failures)
    try:
        return relax.transform.RunCodegen()(mod)
    except RuntimeError:
        if failures:
            raise failures[0] from None
        raise
    finally:
        _failures.reset(token)


tvm_ffi.register_global_func("relax.ext.vnpu", compile_regions, override=True)
