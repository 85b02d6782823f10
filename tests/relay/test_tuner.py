"""AutoTVM's verbs on Relay modules: extract, tune, apply; results stay what they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from runtime_sim.errors import VnpuError
from runtime_sim.npu import load
from tests.relay.graphs import conv2d, image, module, values
from tests.relay.running import build, exact, execute, on_cpu
from tvm_vnpu.frontend.compiled_regions import collect_regions
from tvm_vnpu.relay import partition_for_vnpu
from tvm_vnpu.tuner import apply_history_best, extract_tasks, tune_tasks

FEEDS = {"x": values(1, 3, 8, 8, seed=5)}


@pytest.fixture
def mod() -> tvm.IRModule:
    return module(conv2d(image(1, 3, 8, 8), 8))


def test_tasks_are_the_operators_of_the_regions(mod: tvm.IRModule) -> None:
    with exact():
        (task,) = extract_tasks(mod, npu="vnpu-64")
        (marked,) = extract_tasks(partition_for_vnpu(mod, npu="vnpu-64"), npu="vnpu-1024")
    assert task.operator.kind == "conv2d" and task.key == marked.key
    assert task.key.npu == load("vnpu-64").digest()


@pytest.mark.parametrize("tuner", ["xgb", "ga"])
def test_tuned_modules_run_the_tuned_schedules(
    mod: tvm.IRModule, tuner: str, tmp_path: Path
) -> None:
    with exact():
        tuned = tune_tasks(extract_tasks(mod), tuner, 12, tmp_path / "log", batch=4)
        with apply_history_best(tmp_path / "log"), collect_regions() as regions:
            built = build(partition_for_vnpu(mod))
        found = [layer.schedule for region in regions for layer in region.program.layers]
        assert found == [result.schedule for result in tuned.results]
        for ours, theirs in zip(execute(built, FEEDS), on_cpu(mod, FEEDS), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_module_without_regions_has_no_tasks() -> None:
    with pytest.raises(VnpuError, match="the module has no operator to tune"):
        extract_tasks(module(tvm.relay.tanh(image(1, 3, 8, 8, dtype="float32"))))
