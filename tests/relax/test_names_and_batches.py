"""The model's own names, and symbolic batches."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from codegen.evaluate import evaluate
from tests.relax.onnx_models import make_model, random_values, run_module
from tests.relax.regions import quantized, region_graphs, run_on_npu
from tvm_vnpu.relax import input_names, output_names, partition_for_vnpu


def _two_by_two() -> tuple[object, dict[str, np.ndarray]]:
    weight = random_values(4, 3, 3, 3, seed=1)
    model = make_model(
        [
            helper.make_node("Conv", ["x/in:0", "w"], ["c"], name="conv/a", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], name="relu/a"),
            helper.make_node("Add", ["r", "y/in:1"], ["out/a.0"], name="add/b"),
            helper.make_node("GlobalAveragePool", ["r"], ["out/b.1"], name="gap"),
        ],
        {"x/in:0": [1, 3, 6, 6], "y/in:1": [1, 4, 6, 6]},
        ["out/a.0", "out/b.1"],
        {"w": weight},
    )
    feeds = {"x/in:0": random_values(1, 3, 6, 6), "y/in:1": random_values(1, 4, 6, 6, seed=2)}
    return model, feeds


def test_two_inputs_and_two_outputs_keep_their_names_and_values() -> None:
    model, feeds = _two_by_two()
    mod = quantized(model, feeds)
    part = partition_for_vnpu(mod)
    assert input_names(part) == ["x/in:0", "y/in:1"]
    assert output_names(part) == ["out/a.0", "out/b.1"]
    results = run_module(part, feeds)
    float_results = run_module(mod, feeds)
    for result, close in zip(results, float_results, strict=True):
        assert result.shape == close.shape
        np.testing.assert_allclose(result, close, atol=0.05)  # at most one output step apart
    sources = [op.source_names for graph in region_graphs(mod) for op in graph.operators]
    assert ("conv/a", "relu/a") in sources
    assert ("add/b",) in sources


POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}


def _batched(batch: int | str) -> object:
    return make_model(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], name="relu"),
            helper.make_node(
                "MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]
            ),
            helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
            helper.make_node("Gemm", ["f", "v"], ["y"], name="fc", transB=1),
        ],
        {"x": [batch, 3, 6, 6]},
        ["y"],
        {"w": random_values(5, 3, 3, 3, seed=3), "v": random_values(7, 45, seed=4)},
    )


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_symbolic_batch_equals_row_by_row(count: int) -> None:
    images = random_values(5, 3, 6, 6, seed=5)
    part = partition_for_vnpu(quantized(_batched("N"), {"x": images}))
    machine = relax.VirtualMachine(tvm.compile(part, target="llvm"), tvm.cpu())

    def run(x: np.ndarray) -> np.ndarray:
        return machine["main"](tvm.runtime.tensor(np.ascontiguousarray(x))).numpy()

    together = run(images[:count])
    one_by_one = np.concatenate([run(images[i : i + 1]) for i in range(count)])
    assert len(np.unique(together)) > 3
    np.testing.assert_array_equal(together, one_by_one)


def test_a_static_batch_equals_the_reference_of_each_image() -> None:
    images = random_values(3, 3, 6, 6, seed=6)
    mod = quantized(_batched(3), {"x": images})
    (graph,) = region_graphs(mod)
    (result,) = run_on_npu(mod, {"x": images})
    expected = [evaluate(graph, [images[i : i + 1]])[0] for i in range(3)]
    np.testing.assert_array_equal(result, np.concatenate(expected))


def test_operators_that_are_equal_but_for_their_name_keep_it() -> None:
    pool = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}
    nodes = [helper.make_node("Conv", ["x", "w"], ["p0"], name="conv")]
    nodes += [
        helper.make_node("MaxPool", [f"p{i}"], [f"p{i + 1}"], name=f"pool{i}", **pool)
        for i in range(3)
    ]
    nodes.append(helper.make_node("Sigmoid", ["p3"], ["y"], name="gate"))
    model = make_model(nodes, {"x": [1, 2, 6, 6]}, ["y"], {"w": random_values(4, 2, 1, 1)})
    feeds = {"x": random_values(1, 2, 6, 6)}
    mod = quantized(model, feeds)
    (graph,) = region_graphs(mod)
    sources = [op.source_names for op in graph.operators]
    assert sources[:4] == [("conv",), ("pool0",), ("pool1",), ("pool2",)]
    (result,) = run_on_npu(mod, feeds)
    (expected,) = run_module(mod, feeds)
    np.testing.assert_allclose(result, expected, atol=0.05)
