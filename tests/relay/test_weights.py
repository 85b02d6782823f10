"""Weights that arrive as a quantisation of constants are integers before regions are made."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.graphs import image, module, values
from tests.relay.running import both, exact
from tvm_vnpu.relay import partition_for_vnpu
from tvm_vnpu.relay.prepare import prepare
from tvm_vnpu.relay.region_names import region_functions
from tvm_vnpu.relay.rewrite import calls_of, operator_name

SCALES = np.array([0.5, 0.25, 0.125, 2.0], "float32")
"""Powers of two: a multiple and a half of them is a tie, exactly."""
TIES = np.random.default_rng(0).integers(-140, 140, (4, 3, 3, 3)) + 0.5
REAL = (TIES * SCALES.reshape(4, 1, 1, 1)).astype("float32")


def _half_away(zero_points: np.ndarray) -> np.ndarray:
    """Return the ties rounded away from zero, moved and limited to int8."""
    away = np.sign(TIES) * np.ceil(np.abs(TIES))
    return np.clip(away + zero_points.reshape(4, 1, 1, 1), -128, 127).astype("int8")


def _quantized(zero_points: np.ndarray) -> relay.Expr:
    return relay.qnn.op.quantize(
        relay.const(REAL), relay.const(SCALES), relay.const(zero_points), axis=0
    )


def _folded(mod: tvm.IRModule, name: str) -> np.ndarray:
    """Return the weight of the only call of an operator in the integer module."""
    (call,) = (c for c in calls_of(prepare(mod)["main"]) if operator_name(c) == name)
    assert isinstance(call.args[1], relay.Constant)
    return call.args[1].data.numpy()


def _check(mod: tvm.IRModule, feeds: dict[str, np.ndarray]) -> None:
    with exact():
        partitioned = partition_for_vnpu(mod)
    assert len(region_functions(partitioned)) == 1
    assert [call for call in calls_of(partitioned["main"]) if operator_name(call)] == []
    expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])


@pytest.mark.parametrize("zero_points", [(0, 0, 0, 0), (0, 1, 2, -3)])
def test_per_channel_and_half_away_from_zero(zero_points: tuple[int, ...]) -> None:
    zeros = np.array(zero_points, "int32")
    sums = relay.qnn.op.conv2d(
        image(1, 3, 8, 8), _quantized(zeros), relay.const(3), relay.const(zeros),
        relay.const(0.05), relay.const(SCALES), kernel_size=(3, 3), channels=4,
    )  # fmt: skip
    mod = module(
        relay.qnn.op.requantize(
            sums, relay.const(np.float32(0.05) * SCALES), relay.const(0), relay.const(50.0),
            relay.const(1), axis=1,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(_folded(mod, "qnn.conv2d"), _half_away(zeros))
    _check(mod, {"x": values(1, 3, 8, 8)})


def test_of_a_dense_layer() -> None:
    zeros = np.zeros(4, "int32")
    weight = relay.reshape(_quantized(zeros), (4, 27))
    sums = relay.qnn.op.dense(
        image(1, 27), weight, relay.const(3), relay.const(0), relay.const(0.05),
        relay.const(SCALES), units=4,
    )  # fmt: skip
    mod = module(
        relay.qnn.op.requantize(
            sums, relay.const(np.float32(0.05) * SCALES), relay.const(0), relay.const(50.0),
            relay.const(1), axis=1,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(_folded(mod, "qnn.dense"), _half_away(zeros).reshape(4, 27))
    _check(mod, {"x": values(1, 27)})


def test_between_quantize_and_dequantize_with_its_bias() -> None:
    """Q/DQ: weight and bias are float constants, quantised and dequantised in the graph."""
    pair = (relay.const(0.05), relay.const(3))
    real = relay.qnn.op.quantize(image(1, 3, 8, 8, dtype="float32"), *pair)
    real = relay.qnn.op.dequantize(real, *pair)
    zeros = np.zeros(4, "int32")
    weight = relay.qnn.op.dequantize(
        _quantized(zeros), relay.const(SCALES), relay.const(zeros), axis=0
    )
    product = relay.const(np.float32(0.05) * SCALES)
    bias = relay.qnn.op.quantize(
        relay.const(np.array([1.5, -2, 3, 70], "float32")), product, relay.const(0), axis=0,
        out_dtype="int32",
    )  # fmt: skip
    bias = relay.qnn.op.dequantize(bias, product, relay.const(zeros), axis=0)
    sums = relay.nn.bias_add(relay.nn.conv2d(real, weight, kernel_size=(3, 3), channels=4), bias)
    after = (relay.const(50.0), relay.const(1))
    mod = module(relay.qnn.op.dequantize(relay.qnn.op.quantize(sums, *after), *after))
    np.testing.assert_array_equal(_folded(mod, "qnn.conv2d"), _half_away(zeros))
    with exact():
        integers = prepare(mod)
    _check(integers, {"x": values(1, 3, 8, 8, dtype="float32")})
