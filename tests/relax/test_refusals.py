"""Odd operators stay on the CPU with the reason; nothing in a predicate aborts a compile."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime_sim.errors import VnpuError
from tests.relax.onnx_models import make_model, random_values, run_module
from tests.relax.regions import quantized, run_on_npu
from tvm_vnpu.relax import explain, from_onnx, partition_for_vnpu

IMAGE = random_values(2, 3, 4, 4)


def _qdq(dtype: type, scale: float = 0.05) -> onnx.ModelProto:
    """Return quantize, dequantize, relu, quantize, dequantize in one type."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
        helper.make_node("Relu", ["d"], ["r"], name="relu"),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q2"], name="q2"),
        helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["y"], name="d2"),
    ]
    constants = {"s": np.float32(scale), "z": dtype(0)}
    graph = helper.make_graph(
        nodes,
        "qdq",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(IMAGE.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _reasons(mod: object) -> dict[str, str]:
    return {p.node: p.reason for p in explain(mod).placements if p.device == "cpu"}


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_sixteen_bit_activations_stay_on_the_cpu(dtype: type) -> None:
    mod = from_onnx(_qdq(dtype))
    name = np.dtype(dtype).name
    assert _reasons(mod)["relu"] == (
        f"quantised tensors must be of another type: seen {name}; limit int8, uint8"
    )
    (result,), (expected,) = run_on_npu(mod, {"x": IMAGE}), run_module(mod, {"x": IMAGE})
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("scale", [np.nan, np.inf, -1.0])
def test_scales_must_be_finite_and_positive(scale: float) -> None:
    reason = _reasons(from_onnx(_qdq(np.int8, scale)))["relu"]
    assert reason == f"quantisation scales must be finite and positive: seen {np.float32(scale)}"


def test_a_product_with_a_vector_stays_on_the_cpu() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    feeds = {"x": random_values(2, 3, 5)}
    mod = quantized(make_model([node], {"x": [2, 3, 5]}, ["y"], {"w": random_values(5)}), feeds)
    assert {p.device for p in explain(mod).placements if p.node == "product"} == {"cpu"}
    (result,), (expected,) = run_on_npu(mod, feeds), run_module(mod, feeds)
    np.testing.assert_array_equal(result, expected)


def test_a_scale_too_large_for_a_multiplier_stays_on_the_cpu() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    weight = random_values(4, 3, 1, 1) * np.float32(1e14)
    mod = from_onnx(make_model([node], {"x": [1, 3, 4, 4]}, ["y"], {"w": weight}))
    from tvm_vnpu.quantize import quantize_uncalibrated

    reasons = _reasons(quantize_uncalibrated(mod))
    assert reasons["conv"].startswith("scale is too large for a multiplier and a shift")


def test_a_partitioned_module_is_refused() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    model = make_model([node], {"x": [2, 3, 4, 4]}, ["y"], {"w": random_values(4, 3, 1, 1)})
    part = partition_for_vnpu(quantized(model, {"x": IMAGE}))
    for action in (partition_for_vnpu, explain):
        with pytest.raises(VnpuError, match="^the module is partitioned already: limit"):
            action(part)
