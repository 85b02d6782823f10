"""Models from public bug reports and Fashion-MNIST, through the ONNX importer of TVM 0.19."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.relay.graphs import values
from tests.relay.running import exact, on_cpu, run
from tvm_vnpu.relay import explain, from_onnx, load_onnx, partition_for_vnpu
from tvm_vnpu.relay.prepare import prepare
from tvm_vnpu.relay.region_names import region_functions

CASES = Path(__file__).parents[1] / "cases"
FASHION_MNIST = ("fmnist_cnn_28x28_qdq_s8s8_pc", "fmnist_cnn_28x28_qop_s8s8_pc")


RIGHT = ("B01", "B02", "B05", "B07", "B11", "B15", "B17", "B25", "B27")


def _case(name: str) -> tuple[tvm.IRModule, dict[str, np.ndarray], np.ndarray]:
    """Return a case's module, inputs and the output of its source framework."""
    with np.load(CASES / f"{name}.npz") as data:
        feeds = {key[3:]: data[key] for key in data.files if key.startswith("in_")}
        return from_onnx(load_onnx(CASES / f"{name}.onnx")), feeds, data["out_0"]


@pytest.mark.parametrize("name", RIGHT)
def test_case_runs_on_the_npu_with_the_right_values(name: str) -> None:
    mod, feeds, expected = _case(name)
    with exact():
        partitioned = partition_for_vnpu(mod)
        assert len(region_functions(partitioned)) == 1
        (result,) = run(partitioned, feeds)
        (on_the_cpu,) = on_cpu(prepare(mod), feeds)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(result, on_the_cpu)


def test_b18_rounds_as_relay_does_unless_told_to_round_as_onnx() -> None:
    """Products of 0.5 are ties: ONNX takes the even neighbour, Relay's UPWARD the upper one."""
    mod, feeds, expected = _case("B18")
    with exact():
        (on_the_cpu,) = on_cpu(prepare(mod), feeds)
        (as_relay,) = run(partition_for_vnpu(mod), feeds)
        (as_onnx,) = run(partition_for_vnpu(mod, rounding="onnx"), feeds)
    halves = feeds["x"] * 0.5
    np.testing.assert_array_equal(as_relay, on_the_cpu)
    np.testing.assert_array_equal(as_relay, np.floor(halves + 0.5) + 1)
    np.testing.assert_array_equal(as_onnx, expected)
    np.testing.assert_array_equal(as_onnx, np.rint(halves) + 1)


@pytest.mark.parametrize("name", FASHION_MNIST)
def test_fashion_mnist_is_one_region_with_the_values_of_the_cpu_build(name: str) -> None:
    mod = from_onnx(load_onnx(CASES / f"{name}.onnx"))
    feeds = {"input": np.clip(values(1, 1, 28, 28, dtype="float32") / 3, -1, 1)}
    with exact():
        partitioned = partition_for_vnpu(mod)
        assert len(region_functions(partitioned)) == 1
        assert {placement.device for placement in explain(mod).placements} == {"npu"}
        np.testing.assert_array_equal(run(partitioned, feeds)[0], on_cpu(prepare(mod), feeds)[0])


def test_operators_carry_their_onnx_nodes_names() -> None:
    mod = from_onnx(load_onnx(CASES / f"{FASHION_MNIST[0]}.onnx"))
    with exact():
        nodes = [placement.node for placement in explain(mod).placements]
    assert nodes[1:4] == ["/f/f.0/f.0.0/Conv", "/f/f.1/f.1.0/Conv", "/f/f.2/f/f.0/f.0.0/Conv"]
    assert {"/f/f.2/Add", "/ReduceMean", "/fc/Gemm"} <= set(nodes)
