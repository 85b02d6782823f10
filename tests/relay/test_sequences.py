"""Convolutions and pools over sequences (N, C, L) reach the NPU as images of one row."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.relay.graphs import values
from tests.relay.running import exact, on_cpu, run
from tvm_vnpu.relay import explain, from_onnx
from tvm_vnpu.relay import partition_for_vnpu as partition
from tvm_vnpu.relay.prepare import prepare
from tvm_vnpu.relay.region_names import region_functions


def _qdq(tensor: str, scale: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("QuantizeLinear", [tensor, scale, "z"], [f"{tensor}.q"]),
        helper.make_node("DequantizeLinear", [f"{tensor}.q", scale, "z"], [f"{tensor}.dq"]),
    ]


def _sequence_model() -> onnx.ModelProto:
    """Return Q/DQ around a padded, strided Conv with scales per channel, then a MaxPool."""
    constants = {
        "w": values(4, 3, 5, seed=2), "ws": np.array([0.01, 0.02, 0.005, 0.03], "float32"),
        "wz": np.zeros(4, "int8"), "b": np.array([90, -40, 0, 7], "int32"),
        "bs": np.float32(0.05) * np.array([0.01, 0.02, 0.005, 0.03], "float32"),
        "bz": np.zeros(4, "int32"), "xs": np.float32(0.05), "ys": np.float32(0.1),
        "z": np.int8(3),
    }  # fmt: skip
    nodes = [
        *_qdq("x", "xs"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["w.dq"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["b.dq"], axis=0),
        helper.make_node(
            "Conv", ["x.dq", "w.dq", "b.dq"], ["c"], name="conv", kernel_shape=[5],
            strides=[2], pads=[2, 1], dilations=[1],
        ),
        *_qdq("c", "ys"),
        helper.make_node("MaxPool", ["c.dq"], ["p"], name="pool", kernel_shape=[3], pads=[1, 0]),
        *_qdq("p", "ys"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "sequence",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, 21])],
        [helper.make_tensor_value_info("p.dq", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_a_quantised_sequence_model_is_one_region_and_equals_the_cpu_build() -> None:
    model = _sequence_model()
    before = model.SerializeToString()
    mod, feeds = from_onnx(model), {"x": values(1, 3, 21, dtype="float32", seed=4)}
    assert model.SerializeToString() == before
    with exact():
        partitioned = partition(mod)
        assert len(region_functions(partitioned)) == 1
        placements = explain(mod).placements
        assert {p.device for p in placements} == {"npu"}
        assert {"conv", "pool"} <= {p.node for p in placements}
        (result,), (expected,) = run(partitioned, feeds), on_cpu(prepare(mod), feeds)
    assert result.shape == (1, 4, 9)
    assert len(np.unique(result)) > 10
    np.testing.assert_array_equal(result, expected)
