"""Traps of TVM 0.19's own QNN path, each with the value or the build that it must give."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relay

from codegen.evaluate import evaluate
from tests.relay.graphs import conv2d, image, module, requantize, values
from tests.relay.running import both, exact, on_cpu, run
from tvm_vnpu.frontend.compiled_regions import collect_regions
from tvm_vnpu.relay import explain, from_onnx, partition_for_vnpu
from tvm_vnpu.relay.prepare import prepare
from tvm_vnpu.relay.region_names import region_functions


def _check(mod: tvm.IRModule, feeds: dict[str, np.ndarray], rounding: str = "UPWARD") -> None:
    expected, result = both(mod, feeds, rounding)
    np.testing.assert_array_equal(result[0], expected[0])


def _relu6() -> tvm.IRModule:
    """Return Q/DQ around a convolution whose relu6 ends beyond int8: 6 / 0.0291 is 206."""
    scale, zero = relay.const(0.0291), relay.const(0)
    x = relay.qnn.op.quantize(image(1, 2, 5, 5, dtype="float32"), scale, zero)
    real = relay.clip(relay.qnn.op.dequantize(x, scale, zero), 0, 6)
    pooled = relay.nn.max_pool2d(real, (2, 2))
    return module(relay.qnn.op.dequantize(relay.qnn.op.quantize(pooled, scale, zero), scale, zero))


def test_clip_bounds_beyond_the_type_build_and_clip_nothing() -> None:
    feeds = {"x": values(1, 2, 5, 5, dtype="float32")}
    with exact():
        stock = relay.transform.InferType()(relay.transform.FakeQuantizationToInteger()(_relu6()))
        with pytest.raises(tvm.TVMError, match="206"):
            run(stock, feeds)
        expected = on_cpu(prepare(_relu6()), feeds)
        result = run(partition_for_vnpu(_relu6()), feeds)
    np.testing.assert_array_equal(result[0], expected[0])


def test_a_multiplier_of_a_power_of_two() -> None:
    """q = 2^30: TVM shifts in int32 instead of multiplying in int64."""
    mod = module(conv2d(image(1, 3, 8, 8), 4, x_scale=0.5, w_scale=0.25, out_scale=16.0))
    for rounding in ("UPWARD", "TONEAREST"):
        _check(mod, {"x": values(1, 3, 8, 8)}, rounding)


def test_a_multiplier_of_one_and_above() -> None:
    x = image(1, 3, 8, 8)
    results = [
        conv2d(x, 4, x_scale=0.5, w_scale=0.25, out_scale=out_scale)
        for out_scale in (0.125, 0.1, 0.03)
    ]
    mod = module(relay.Tuple(results))
    with exact():
        assert {p.device for p in explain(mod).placements} == {"npu"}
    expected, result = both(mod, {"x": values(1, 3, 8, 8)})
    np.testing.assert_array_equal(result, expected)


def test_the_zero_point_is_added_after_rounding() -> None:
    every = np.arange(-128, 128, dtype="int8").reshape(1, 4, 8, 8)
    mod = module(requantize(image(1, 4, 8, 8), 0.5, 0, 1.0, 7))
    with exact():
        (result,) = run(partition_for_vnpu(mod), {"x": every})
    np.testing.assert_array_equal(result, np.floor(every * 0.5 + 0.5).astype("int8") + 7)


def _half_away(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.floor(np.abs(values) + 0.5)


@pytest.mark.parametrize("compute", ["float32", "int64"])
def test_only_in_float_is_the_zero_point_added_before_rounding(compute: str) -> None:
    every = np.arange(-128, 128, dtype="int8").reshape(1, 4, 8, 8)
    mod = module(requantize(image(1, 4, 8, 8), 0.5, 0, 1.0, 7))
    with relay.qnn.op.requantize_config(rounding="TONEAREST", compute_dtype=compute):
        partitioned = partition_for_vnpu(mod)
        (result,) = run(partitioned, {"x": every})
    before, after = _half_away(every * 0.5 + 7), _half_away(every * 0.5) + 7
    assert len(region_functions(partitioned)) == (compute == "int64")
    np.testing.assert_array_equal(result, after if compute == "int64" else before)
    assert not np.array_equal(before, after)


def test_a_product_has_the_scale_of_float32() -> None:
    """TVM multiplies the scales in float32, here to half the output's: odd products are ties."""
    a, b = next(
        (float(x), float(y))
        for x, y in np.random.default_rng(1).uniform(0.01, 0.1, (99, 2)).astype("float32")
        if float(x * y) > float(x) * float(y) * (1 + 2.0**-25)
    )
    params = (a, 0, b, 0, 2 * float(np.float32(a) * np.float32(b)), 0)
    mod = module(relay.qnn.op.mul(image(1, 4, 8, 8), image(1, 4, 8, 8, name="y"),
                                  *map(relay.const, params)))  # fmt: skip
    feeds = {name: values(1, 4, 8, 8, seed=seed) % 12 for name, seed in (("x", 1), ("y", 2))}
    with collect_regions() as regions:
        expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])
    (evaluated,) = evaluate(regions[0].program.graph, list(feeds.values()))
    np.testing.assert_array_equal(evaluated, expected[0])
    assert np.array_equal(expected[0], np.floor(feeds["x"] * feeds["y"] / 2 + 0.5))


def test_weights_that_arrive_as_a_quantize_become_int8() -> None:
    weight = relay.qnn.op.quantize(
        relay.const(values(4, 3, 3, 3, dtype="float32")), relay.const(0.02), relay.const(0)
    )
    sums = relay.qnn.op.conv2d(
        image(1, 3, 8, 8), weight, *map(relay.const, (3, 0, 0.05, 0.02)), kernel_size=(3, 3),
        channels=4,
    )  # fmt: skip
    scale = float(np.float32(0.05) * np.float32(0.02))
    mod = module(requantize(sums, scale, 0, 0.3, -7, axis=1))
    assert len(region_functions(partition_for_vnpu(mod))) == 1
    _check(mod, {"x": values(1, 3, 8, 8)})


def test_averages_round_toward_zero() -> None:
    every = np.arange(-128, 128, dtype="int8").reshape(1, 16, 4, 4)
    mod = module(relay.cast(relay.mean(relay.cast(image(1, 16, 4, 4), "int32"), (2, 3)), "int8"))
    with exact():
        (result,) = run(partition_for_vnpu(mod), {"x": every})
    np.testing.assert_array_equal(result, np.trunc(every.astype(float).mean((2, 3))).astype("int8"))


def _same_padded() -> onnx.ModelProto:
    weight = values(2, 3, 3, 3, seed=4)
    constants = {
        "w": weight, "s": np.float32(0.05), "z": np.int8(3), "ws": np.float32(0.02),
        "wz": np.int8(0), "os": np.float32(0.4), "oz": np.int8(-5),
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["x", "s", "z", "w", "ws", "wz", "os", "oz"], ["y"], name="conv",
        auto_pad="SAME_UPPER", strides=[2, 2], kernel_shape=[3, 3],
    )  # fmt: skip
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT8, [1, 3, 8, 7])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT8, [1, 2, 4, 4])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_auto_pad_is_made_explicit() -> None:
    mod = from_onnx(_same_padded())
    assert len(region_functions(partition_for_vnpu(mod))) == 1
    _check(mod, {"x": values(1, 3, 8, 7)})


def _relu6_per_channel(bias: int) -> tvm.IRModule:
    """Return what FakeQuantizationToInteger makes of conv, bias and relu6: bounds per channel.

    The last channel has weights so small that the bound of relu6 does not fit int32.
    """
    scales = np.array([0.02, 0.011, 1e-9], "float32")
    weight = values(3, 3, 3, 3, seed=9)
    weight[2] = np.sign(weight[2])
    sums = relay.qnn.op.conv2d(
        image(1, 3, 8, 8), relay.const(weight), relay.const(3), relay.const(np.zeros(3, "int32")),
        relay.const(0.05), relay.const(scales), kernel_size=(3, 3), channels=3,
    )  # fmt: skip
    sums = relay.nn.bias_add(sums, relay.const(np.array([900, -900, bias], "int32")))
    product = np.float32(0.05) * scales
    limit = np.clip(np.rint(6 / product.astype("float64")), 0, 2**31 - 1).astype("int32")
    sums = relay.maximum(sums, relay.const(np.zeros((1, 3, 1, 1), "int32")))
    sums = relay.minimum(sums, relay.const(limit.reshape(1, 3, 1, 1)))
    return module(
        relay.qnn.op.requantize(
            sums, relay.const(product), relay.const(np.zeros(3, "int32")), relay.const(6 / 255),
            relay.const(-128), axis=1,
        )
    )  # fmt: skip


def test_a_channel_that_cannot_reach_its_bound_does_not_keep_a_layer_from_the_npu() -> None:
    mod = _relu6_per_channel(bias=5)
    assert len(region_functions(partition_for_vnpu(mod))) == 1
    _check(mod, {"x": values(1, 3, 8, 8)})


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_a_sum_that_wraps_in_tvm_wraps_on_the_npu(rounding: str) -> None:
    """Quantisers leave biases near the end of int32 to channels whose weights are almost zero."""
    mod = _relu6_per_channel(bias=-(2**31))
    assert len(region_functions(partition_for_vnpu(mod))) == 1
    expected, result = both(mod, {"x": values(1, 3, 8, 8)}, rounding)
    np.testing.assert_array_equal(result[0], expected[0])
    assert len(np.unique(expected[0][:, 2])) == 2


def test_a_clamp_between_a_sum_that_wraps_and_its_zero_point() -> None:
    sums = relay.qnn.op.dense(
        image(1, 8), relay.const(values(4, 8, seed=2)), *map(relay.const, (3, 0, 0.1, 1e-8)),
        units=4,
    )  # fmt: skip
    sums = relay.nn.bias_add(sums, relay.const(np.full(4, 2**31 - 5, "int32")))
    clamped = requantize(relay.nn.relu(sums), 1e-9, 7, 0.1, 0)
    mod = module(clamped)
    with exact():
        reasons = {p.reason for p in explain(mod).placements}
    assert "a sum that wraps must not be clamped before its zero point is removed" in reasons
    _check(mod, {"x": values(1, 8)})
