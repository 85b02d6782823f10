"""The model as it was before compilation, on TVM's CPU backend."""

from __future__ import annotations

from pathlib import Path

import tvm

from tvm_vnpu.artifact.meta import Meta
from tvm_vnpu.artifact.runner import Runner
from tvm_vnpu.relax import from_onnx, load_onnx


def reference_runner(folder: Path, meta: Meta) -> Runner:
    """Compile the copy of the source model for the CPU. Raises VnpuError if it is damaged."""
    shapes = {name: list(shape) for name, shape in meta.source.shapes.items()}
    module = from_onnx(load_onnx(folder / "source.onnx"), shapes or None)
    return Runner(tvm.compile(module, target="llvm"), meta.inputs, meta.outputs)
