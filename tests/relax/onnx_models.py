"""Small ONNX models for tests, and how to run a Relax module on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

from tvm_vnpu.relax.names import input_names

Shape = Sequence[int | str | None]


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Shape],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 13,
    output_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """Return a model with float32 inputs of the given shapes."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(name, output_type, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run_module(mod: tvm.IRModule, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a module on the CPU, in order."""
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(feeds[name]) for name in input_names(mod)))
    tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in tensors]


def random_values(*shape: int, seed: int = 0) -> np.ndarray:
    """Return normally distributed float32 values."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)
