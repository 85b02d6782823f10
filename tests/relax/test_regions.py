"""Regions: how many, what stays on the CPU and why, and their values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from codegen.evaluate import evaluate
from codegen.ops.conv2d import Conv2D
from runtime_sim.npu import load
from tests.relax.onnx_models import make_model, random_values, run_module
from tests.relax.regions import quantized, region_graphs, run_on_npu
from tvm_vnpu.relax import explain, from_onnx
from tvm_vnpu.relax.explanation import Explanation

SHAPE = (1, 4, 8, 8)


def _conv(x: str, y: str, name: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node("Conv", [x, "w"], [y], name=name, **attributes)


def _model(nodes: list[onnx.NodeProto], outputs: list[str], **constants: np.ndarray) -> object:
    weight = random_values(4, 4, 3, 3, seed=1) * 0.3
    return make_model(nodes, {"x": list(SHAPE)}, outputs, {"w": weight, **constants})


def test_a_lone_convolution_with_its_borders_is_one_kernel() -> None:
    mod = quantized(_model([_conv("x", "y", "conv")], ["y"]), {"x": random_values(*SHAPE)})
    (graph,) = region_graphs(mod)
    (operator,) = graph.operators
    assert isinstance(operator, Conv2D)
    assert (operator.inputs[0].dtype, operator.outputs[0].dtype) == ("float32", "float32")
    assert {placement.device for placement in explain(mod).placements} == {"npu"}


POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}
PADDED = {**POOL, "pads": [1, 1, 1, 1]}
NETWORKS: dict[str, tuple[list[onnx.NodeProto], dict[str, np.ndarray]]] = {
    "conv_chain": ([_conv("x", "a", "c1", pads=[1, 1, 1, 1]), _conv("a", "y", "c2")], {}),
    "asymmetric_pads": ([_conv("x", "y", "c", pads=[0, 1, 2, 1], strides=[2, 2])], {}),
    "dilated": ([_conv("x", "y", "c", pads=[2, 2, 2, 2], dilations=[2, 2])], {}),
    "residual": (
        [
            _conv("x", "a", "c", pads=[1, 1, 1, 1]),
            helper.make_node("Add", ["a", "x"], ["y"], name="add"),
        ],
        {},
    ),
    "add_constant": (
        [
            _conv("x", "a", "c"),
            helper.make_node("Add", ["a", "k"], ["y"], name="add"),
        ],
        {"k": random_values(1, 4, 1, 1, seed=7)},
    ),
    "max_pool": (
        [_conv("x", "a", "c"), helper.make_node("MaxPool", ["a"], ["y"], name="p", **POOL)],
        {},
    ),
    "average_pool_with_pads": (
        [
            _conv("x", "a", "c"),
            helper.make_node("AveragePool", ["a"], ["y"], name="p", **PADDED),
        ],
        {},
    ),
    "average_pool_counting_pads": (
        [
            _conv("x", "a", "c"),
            helper.make_node(
                "AveragePool",
                ["a"],
                ["y"],
                name="p",
                pads=[1, 1, 1, 1],
                count_include_pad=1,
                **POOL,
            ),
        ],
        {},
    ),
    "concat_channels": (
        [
            _conv("x", "a", "c1", pads=[1, 1, 1, 1]),
            helper.make_node("Concat", ["a", "x"], ["y"], name="cat", axis=1),
        ],
        {},
    ),
    "concat_rows": (
        [
            _conv("x", "a", "c1", pads=[1, 1, 1, 1]),
            helper.make_node("Concat", ["x", "a"], ["y"], name="cat", axis=2),
        ],
        {},
    ),
    "flatten_dense": (
        [
            _conv("x", "a", "c"),
            helper.make_node("Flatten", ["a"], ["f"], name="flat"),
            helper.make_node("Gemm", ["f", "v", "b"], ["y"], name="fc"),
        ],
        {"v": random_values(144, 6, seed=8), "b": random_values(6, seed=9)},
    ),
    "mean_dense": (
        [
            _conv("x", "a", "c"),
            helper.make_node("ReduceMean", ["a"], ["m"], name="mean", axes=[2, 3], keepdims=0),
            helper.make_node("MatMul", ["m", "v"], ["y"], name="fc"),
        ],
        {"v": random_values(4, 6, seed=8)},
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_one_region_and_equals_its_reference(name: str) -> None:
    nodes, constants = NETWORKS[name]
    feeds = {"x": random_values(*SHAPE, seed=3)}
    mod = quantized(_model(nodes, ["y"], **constants), feeds, {"x": random_values(*SHAPE, seed=4)})
    assert [p for p in explain(mod).placements if p.device == "cpu"] == []
    (graph,) = region_graphs(mod)
    (result,) = run_on_npu(mod, feeds)
    (expected,) = evaluate(graph, [feeds["x"]])
    np.testing.assert_array_equal(result, expected)
    assert len(np.unique(result)) > 3


def test_an_operator_without_a_pattern_splits_the_network_and_is_explained() -> None:
    nodes = [
        _conv("x", "a", "first", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["s"], name="gate"),
        _conv("s", "y", "second"),
    ]
    feeds = {"x": random_values(*SHAPE, seed=3)}
    mod = quantized(_model(nodes, ["y"]), feeds)
    explanation = explain(mod)
    assert explanation.regions == 2
    (gate,) = [p for p in explanation.placements if p.device == "cpu"]
    assert (gate.node, gate.operator) == ("gate", "relax.sigmoid")
    assert gate.reason == "the NPU has no pattern for relax.sigmoid"
    first, second = region_graphs(mod)
    (middle,) = evaluate(first, [feeds["x"]])
    gated = (1 / (1 + np.exp(-middle.astype(np.float64)))).astype(np.float32)
    (expected,) = evaluate(second, [gated])
    (result,) = run_on_npu(mod, feeds)
    np.testing.assert_array_equal(result, expected)


def test_an_operator_that_the_npu_refuses_keeps_the_reason() -> None:
    nodes = [_conv("x", "y", "wide_pad", pads=[3, 3, 3, 3])]
    mod = quantized(_model(nodes, ["y"]), {"x": random_values(*SHAPE)})
    reasons = {p.node: p.reason for p in explain(mod).placements}
    assert reasons["wide_pad"] == (
        "Padding must be 0..255 and smaller than the dilated kernel "
        "(seen 3 before and 3 after, dilated kernel 3)"
    )


def _small(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> Explanation:
    """Explain a quantised model on an NPU in which no tile of its convolutions fits."""
    mod = quantized(_model(nodes, ["y"], **constants), {"x": random_values(*SHAPE)})
    return explain(mod, replace(load("vnpu-256"), name="tiny", spm_kib=1, acc_kib=1))


def test_the_constraint_that_refuses_outranks_shapes_that_do_not_convert() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "k", "b"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["a", "low", "high"], ["y"], name="clip"),
    ]
    constants = {
        "k": random_values(64, 4, 3, 3), "b": random_values(64),
        "low": np.float32(0), "high": np.float32(6),
    }  # fmt: skip
    explanation = _small(nodes, **constants)
    assert [(p.node, p.operator, p.device, p.reason) for p in explanation.placements] == [
        ("x_QuantizeLinear", "relax.quantize", "cpu", "nothing beside it runs on the NPU"),
        ("x_DequantizeLinear", "relax.dequantize", "cpu", "nothing beside it runs on the NPU"),
        ("conv", "relax.nn.conv2d", "cpu", "no tile of it fits the memories of tiny"),
        ("clip", "relax.clip", "cpu", "no tile of it fits the memories of tiny"),
        ("clip_QuantizeLinear", "relax.quantize", "cpu", "nothing beside it runs on the NPU"),
        ("clip_DequantizeLinear", "relax.dequantize", "cpu", "nothing beside it runs on the NPU"),
    ]
    assert (explanation.cpu_share, explanation.regions) == (1.0, 0)


def test_conversions_and_constants_do_not_count() -> None:
    nodes = [
        _conv("x", "a", "conv"),
        helper.make_node("Sigmoid", ["k"], ["s"], name="constant"),
        helper.make_node("Sigmoid", ["a"], ["g"], name="gate"),
        helper.make_node("Mul", ["g", "s"], ["y"], name="scaled"),
    ]
    mod = quantized(_model(nodes, ["y"], k=random_values(1, 4, 1, 1)), {"x": random_values(*SHAPE)})
    explanation = explain(mod)
    nodes_by_device = [(p.node, p.device) for p in explanation.placements if p.counts]
    assert nodes_by_device == [("conv", "npu"), ("gate", "cpu"), ("scaled", "cpu")]
    assert explanation.cpu_share == pytest.approx(2 / 3)
    assert explanation.to_dict()["cpu_share"] == explanation.cpu_share


def test_an_explanation_is_html() -> None:
    page = _small([_conv("x", "y", "a<b>")])._repr_html_()
    assert page.count("<table>") == 1 and "a&lt;b&gt;" in page


def test_a_float_model_is_explained_as_not_quantised() -> None:
    mod = from_onnx(_model([_conv("x", "y", "conv")], ["y"]))
    assert {(p.device, p.reason) for p in explain(mod).placements} == {
        ("cpu", "the model is not quantised: give calibration data")
    }


CHAINS: dict[str, list[onnx.NodeProto]] = {
    "relu_then_clip": [
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Clip", ["b", "low", "high"], ["y"], name="clip"),
    ],
    "clip_from_below": [helper.make_node("Clip", ["a", "low"], ["y"], name="clip")],
    "clip_from_above": [helper.make_node("Clip", ["a", "", "high"], ["y"], name="clip")],
    "clip_that_wins_over_relu": [
        helper.make_node("Clip", ["a", "low", "high"], ["b"], name="clip"),
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_activations_fold_into_the_convolution(name: str) -> None:
    bounds = {"low": np.float32(-0.5), "high": np.float32(0.75)}
    feeds = {"x": random_values(*SHAPE, seed=3)}
    mod = quantized(_model([_conv("x", "a", "conv"), *CHAINS[name]], ["y"], **bounds), feeds)
    (graph,) = region_graphs(mod)
    (operator,) = graph.operators
    assert operator.source_names == ("conv", *(node.name for node in CHAINS[name]))
    (result,), (close,) = run_on_npu(mod, feeds), run_module(mod, feeds)
    np.testing.assert_allclose(result, close, atol=0.05)  # an output step: roundings differ
    np.testing.assert_array_equal(result, evaluate(graph, [feeds["x"]])[0])


def test_a_clip_of_its_own_gets_its_own_range() -> None:
    nodes = [helper.make_node("Clip", ["x", "low", "high"], ["y"], name="clip")]
    bounds = {"low": np.float32(0.5), "high": np.float32(2.0)}
    feeds = {"x": random_values(*SHAPE, seed=3) * 100}
    mod = quantized(_model([*nodes, _conv("y", "z", "conv")], ["y", "z"], **bounds), feeds)
    result, _ = run_on_npu(mod, feeds)
    assert (result.min(), result.max()) == pytest.approx((0.5, 2.0), abs=2.0 / 255)
