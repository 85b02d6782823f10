"""The NPU programs of a model through the door that this environment has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from codegen.program import NpuProgram
from tvm_vnpu.frontend.environment import DISTRIBUTIONS


def door() -> str:
    """Return which door the installed TVM opens: relax or relay."""
    for name, package in DISTRIBUTIONS.items():
        try:
            version(package)
        except PackageNotFoundError:
            continue
        return name
    raise AssertionError("no TVM is installed")


def programs(path: Path, rounding: str) -> list[NpuProgram]:
    """Return the programs of a model's regions, in order, with one profile forced."""
    return _relay(path, rounding) if door() == "relay" else _relax(path, rounding)


def _relay(path: Path, rounding: str) -> list[NpuProgram]:
    from tvm_vnpu.relay import from_onnx, load_onnx, partition_for_vnpu
    from tvm_vnpu.relay.codegen_hook import region_program
    from tvm_vnpu.relay.region_names import region_functions

    mod = partition_for_vnpu(from_onnx(load_onnx(path)), rounding=rounding)
    return [region_program(function) for function in region_functions(mod).values()]


def _relax(path: Path, rounding: str) -> list[NpuProgram]:
    from tvm_vnpu.relax import from_onnx, load_onnx
    from tvm_vnpu.relax.codegen_hook import region_program
    from tvm_vnpu.relax.partition import annotate_regions, region_functions

    annotated = annotate_regions(from_onnx(load_onnx(path)), rounding=rounding)
    return [region_program(function) for function in region_functions(annotated.mod).values()]
