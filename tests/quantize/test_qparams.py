"""Quantisation parameters: exact values, and equal to onnxruntime's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnxruntime.quantization.quant_utils import compute_scale_zp

from tvm_vnpu.quantize.qparams import (
    INT32_MAX,
    QParams,
    activation_qparams,
    bias_scales,
    quantize_bias,
    quantize_values,
    quantize_weight,
    weight_scales,
)

finite = st.floats(-1e6, 1e6, width=32)


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero_point"),
    [
        (-1.0, 1.0, 2 / 255, 0),
        (0.0, 6.0, 6 / 255, -128),
        (2.0, 6.0, 6 / 255, -128),
        (-6.0, -2.0, 6 / 255, 127),
        (-2.0, 6.0, 8 / 255, -64),
        (0.0, 0.0, 1.0, 0),
        (0.0, 1e-39, 1.0, 0),
    ],
)
def test_activation_parameters(low: float, high: float, scale: float, zero_point: int) -> None:
    assert activation_qparams(low, high) == QParams(np.float32(scale), zero_point)


def test_symmetric_activation_parameters() -> None:
    assert activation_qparams(-1.0, 3.0, symmetric=True) == QParams(np.float32(6 / 255), 0)


@given(finite, finite)
def test_activation_parameters_equal_onnxruntime(a: float, b: float) -> None:
    low, high = np.float32(min(a, b)), np.float32(max(a, b))
    qmin, qmax = np.array(-128, np.int8), np.array(127, np.int8)
    zero_point, scale = compute_scale_zp(low, high, qmin, qmax, symmetric=False)
    assert activation_qparams(low, high) == QParams(np.float32(scale), int(zero_point))


@given(finite, finite)
def test_zero_is_exact(a: float, b: float) -> None:
    params = activation_qparams(min(a, b), max(a, b))
    assert quantize_values(np.zeros(1), params)[0] == params.zero_point


def test_weights_per_channel() -> None:
    weight = np.float32([[1.27, -0.5], [-2.54, 2.54], [0.0, 0.0]])
    scales = weight_scales(weight, 0, 0.1, None, per_channel=True)
    np.testing.assert_array_equal(scales, np.float32([1.27 / 127, 2.54 / 127, 1.0]))
    values = quantize_weight(weight, 0, scales).values
    np.testing.assert_array_equal(values, np.int8([[127, -50], [-127, 127], [0, 0]]))


def test_weights_per_channel_of_the_last_axis() -> None:
    weight = np.float32([[1.27, -2.54], [0.5, 2.54]])
    scales = weight_scales(weight, 1, 0.1, None, per_channel=True)
    np.testing.assert_array_equal(scales, np.float32([1.27 / 127, 2.54 / 127]))
    values = quantize_weight(weight, 1, scales).values
    np.testing.assert_array_equal(values, np.int8([[127, -127], [50, 127]]))


def test_weights_per_tensor() -> None:
    weight = np.float32([[1.27], [-2.54]])
    scales = weight_scales(weight, 0, 0.1, None, per_channel=False)
    np.testing.assert_array_equal(scales, np.float32([2.54 / 127, 2.54 / 127]))


def test_bias_is_in_units_of_both_scales() -> None:
    scales = bias_scales(np.float32(0.5), np.float32([0.25, 0.125]))
    np.testing.assert_array_equal(scales, np.float32([0.125, 0.0625]))
    np.testing.assert_array_equal(quantize_bias(np.float32([1, -0.5]), scales), np.int32([8, -8]))


@given(
    st.floats(2**-100, 1e3, width=32),
    st.floats(-1e4, 1e4, width=32),
    st.floats(2**-20, 1e2, width=32),
)
def test_accumulator_with_bias_stays_in_int32(weight: float, bias: float, scale: float) -> None:
    weights, biases = np.full((1, 64), weight, np.float32), np.float32([bias])
    scales = weight_scales(weights, 0, scale, biases, per_channel=True)
    values = quantize_weight(weights, 0, scales).values.astype(np.int64)
    quantised = quantize_bias(biases, bias_scales(np.float32(scale), scales)).astype(np.int64)
    assert np.abs(quantised).max() + 255 * np.abs(values).sum() <= INT32_MAX
    restored = float(quantised[0]) * scale * float(scales[0])
    assert restored == pytest.approx(bias, abs=scale * float(scales[0]), rel=1e-6)


def test_a_channel_of_zeros_keeps_its_bias() -> None:
    scales = weight_scales(np.zeros((1, 4), np.float32), 0, 0.5, np.float32([0.3]), True)
    quantised = quantize_bias(np.float32([0.3]), bias_scales(np.float32(0.5), scales))
    assert float(quantised[0]) * 0.5 * float(scales[0]) == pytest.approx(0.3, rel=1e-6)
