"""Run a model through the Relax door, and find its regions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import tvm

from codegen.graph import NpuGraph
from codegen.profiles import profile
from runtime_sim.npu import load
from tests.relax.onnx_models import run_module
from tvm_vnpu.quantize import quantize
from tvm_vnpu.relax import from_onnx, partition_for_vnpu
from tvm_vnpu.relax.build_graph import build_graph
from tvm_vnpu.relax.partition import annotate_regions, region_functions

Feeds = Mapping[str, np.ndarray]


def quantized(model: onnx.ModelProto, *batches: Feeds) -> tvm.IRModule:
    """Return a float model quantised on a few batches."""
    return quantize(from_onnx(model), list(batches))


def region_graphs(mod: tvm.IRModule, npu: str = "vnpu-256") -> list[NpuGraph]:
    """Return the NpuGraphs of a quantised module's regions, in order."""
    annotated = annotate_regions(mod, npu)
    return [
        build_graph(label, function, profile(annotated.profile.name), load(npu))
        for label, function in region_functions(annotated.mod).items()
    ]


def run_on_npu(mod: tvm.IRModule, feeds: Feeds, npu: str = "vnpu-256") -> list[np.ndarray]:
    """Return the outputs of a quantised module that is partitioned and simulated."""
    return run_module(partition_for_vnpu(mod, npu), feeds)
