"""Tasks of Relax modules, and compiling with what was found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

from runtime_sim.errors import VnpuError
from runtime_sim.npu import load
from tests.artifact.models import classifier, images
from tests.relax.onnx_models import run_module
from tests.relax.regions import quantized, region_graphs
from tvm_vnpu.frontend.compiled_regions import collect_regions
from tvm_vnpu.relax import partition_for_vnpu
from tvm_vnpu.relax.partition import annotate_regions
from tvm_vnpu.tuner import apply_history_best, extract_tasks, graph_tasks, tune_tasks


@pytest.fixture(scope="module")
def mod() -> tvm.IRModule:
    return quantized(classifier(), {"image": images()})


def test_tasks_are_the_operators_of_the_regions(mod: tvm.IRModule) -> None:
    tasks = extract_tasks(mod)
    npu = load("vnpu-256")
    expected = graph_tasks([(graph, npu) for graph in region_graphs(mod)])
    assert [task.key for task in tasks] == [task.key for task in expected]
    assert [task.operator.kind for task in tasks] == ["conv2d", "average_pool", "dense"]
    assert tasks[0].nodes == ("first/Conv+first/Relu",) and tasks[0].weight == 1
    assert tasks[0].workload == "conv2d 8x8x1 float32 -> 8x8x8 int8 3x3 s1x1 p1,1 d1x1"


def test_regions_that_are_marked_keep_their_npu(mod: tvm.IRModule) -> None:
    tasks = extract_tasks(annotate_regions(mod, "vnpu-64").mod, npu="vnpu-1024")
    assert {task.key.npu for task in tasks} == {load("vnpu-64").digest()}


def test_a_compiled_module_has_no_tasks(mod: tvm.IRModule) -> None:
    with pytest.raises(VnpuError, match="the module is partitioned already"):
        extract_tasks(partition_for_vnpu(mod))


def test_a_float_module_has_no_tasks() -> None:
    from tvm_vnpu.relax import from_onnx

    with pytest.raises(VnpuError, match="the module has no operator to tune"):
        extract_tasks(from_onnx(classifier()))


def test_params_belong_to_relay(mod: tvm.IRModule) -> None:
    with pytest.raises(VnpuError, match="a Relax module takes no params here"):
        extract_tasks(mod, {"w": np.zeros(1)})


def test_tuned_modules_run_the_tuned_schedules(mod: tvm.IRModule, tmp_path: Path) -> None:
    tuned = tune_tasks(extract_tasks(mod), "random", 16, tmp_path / "log", seed=1)
    with apply_history_best(tmp_path / "log"), collect_regions() as regions:
        partitioned = partition_for_vnpu(mod)
    found = [layer.schedule for region in regions for layer in region.program.layers]
    assert found == [result.schedule for result in tuned.results]
    feeds = {"image": images(1)}
    for ours, plain in zip(
        run_module(partitioned, feeds), run_module(partition_for_vnpu(mod), feeds)
    ):
        np.testing.assert_array_equal(ours, plain)


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, tvm_vnpu.tuner as t\n"
        "assert not {'tvm', 'onnx', 'xgboost', 'distributed', 'numpy'} & set(sys.modules)\n"
        "t.tune_tasks, t.Task, t.apply_history_best, t.DaskWorkers, t.Processes, t.extract_tasks\n"
        "import tvm_vnpu.tuner.searchers.xgb\n"
        "assert not {'tvm', 'onnx', 'xgboost', 'distributed'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
