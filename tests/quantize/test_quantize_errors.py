"""What the quantiser refuses, in which words, before any work."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import tvm
from onnx import helper

from runtime_sim.errors import VnpuError
from tests.relax.onnx_models import make_model, random_values
from tvm_vnpu.quantize import calibrate, quantize
from tvm_vnpu.relax.importer import from_onnx

GOOD = random_values(1, 3, 4, 4)


@pytest.fixture
def mod() -> tvm.IRModule:
    conv = helper.make_node("Conv", ["x/in", "w"], ["y"], name="conv")
    return from_onnx(
        make_model([conv], {"x/in": [1, 3, 4, 4]}, ["y"], {"w": random_values(2, 3, 1, 1)})
    )


def refusal(
    mod: tvm.IRModule, batches: Iterable[dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Return the message of the refusal, which has to come before anything is compiled."""

    def compiled(*_: object) -> None:
        raise AssertionError("the model was compiled before the data was checked")

    monkeypatch.setattr(calibrate, "_runner", compiled)
    with pytest.raises(VnpuError) as caught:
        quantize(mod, batches)
    return str(caught.value)


@pytest.mark.parametrize("batches", [[], iter([])])
def test_empty_set(mod: tvm.IRModule, batches: Iterable, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(mod, batches, monkeypatch) == (
        "the calibration set is empty: seen 0 batches; limit at least 1 batch; "
        "give some of the training data"
    )


def test_no_samples(mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(mod, [{"x/in": GOOD[:0]}], monkeypatch) == (
        "calibration batch 0, input 'x/in' has the wrong shape: seen (0, 3, 4, 4); "
        "limit (1, 3, 4, 4), any multiple of it along the first axis; reshape the data"
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(
    mod: tvm.IRModule, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = GOOD.copy()
    bad[0, 1, 2, 3] = value
    assert refusal(mod, [{"x/in": GOOD}, {"x/in": bad}], monkeypatch) == (
        "calibration batch 1, input 'x/in' holds NaN or infinity: seen 1 of 48 values; "
        "limit finite values; clean the calibration data"
    )


def test_wrong_name(mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(mod, [{"x_in": GOOD}], monkeypatch) == (
        "calibration batch 0 has an input the model does not have: seen 'x_in'; "
        "limit the inputs are x/in; name the arrays after the model's inputs"
    )


def test_missing_input(mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(mod, [{}], monkeypatch) == (
        "calibration batch 0 lacks input 'x/in': seen no arrays; "
        "name the arrays after the model's inputs"
    )


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 4, 4, 3)])
def test_wrong_shape(
    mod: tvm.IRModule, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refusal(mod, [{"x/in": random_values(*shape)}], monkeypatch) == (
        f"calibration batch 0, input 'x/in' has the wrong shape: seen {shape}; "
        "limit (1, 3, 4, 4), any multiple of it along the first axis; reshape the data"
    )


def test_wrong_dtype(mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(mod, iter([{"x/in": GOOD.astype(np.float64)}]), monkeypatch) == (
        "calibration batch 0, input 'x/in' has the wrong dtype: seen float64; limit float32; "
        "convert it to a float32 array"
    )


def test_bad_batch_later_in_a_stream(mod: tvm.IRModule) -> None:
    with pytest.raises(VnpuError, match="calibration batch 1, input 'x/in' has the wrong dtype"):
        quantize(mod, iter([{"x/in": GOOD}, {"x/in": GOOD.astype(np.int8)}]))


def test_quantised_already(mod: tvm.IRModule, monkeypatch: pytest.MonkeyPatch) -> None:
    quantised = quantize(mod, [{"x/in": GOOD}])
    assert refusal(quantised, [{"x/in": GOOD}], monkeypatch) == (
        "the model is quantised already: seen profile integer; limit a float model; "
        "compile it as it is, without calibration data"
    )


def test_overflow_inside_the_model() -> None:
    conv = helper.make_node("Conv", ["x/in", "w"], ["y"], name="conv")
    weight = np.full((2, 3, 1, 1), 10, np.float32)
    mod = from_onnx(make_model([conv], {"x/in": [1, 3, 4, 4]}, ["y"], {"w": weight}))
    with pytest.raises(VnpuError) as caught:
        quantize(mod, [{"x/in": np.full((1, 3, 4, 4), 3e38, np.float32)}])
    message = str(caught.value)
    assert message.startswith("the float model overflows on the calibration set at 'conv': seen ")
    assert message.endswith("; limit finite values; check the scale of the calibration data")


def test_one_batch_of_unequal_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    add = helper.make_node("Add", ["x", "z"], ["y"])
    mod = from_onnx(make_model([add], {"x": ["N", 4], "z": ["M", 4]}, ["y"]))
    batch = {"x": random_values(2, 4), "z": random_values(1, 4)}
    assert refusal(mod, [batch], monkeypatch) == (
        "the inputs of calibration batch 0 have different numbers of samples: seen x: 2, z: 1; "
        "give every input the same number, or pin shapes with --shape"
    )


def test_a_scalar_input_of_the_wrong_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    mul = helper.make_node("Mul", ["x", "s"], ["y"])
    mod = from_onnx(make_model([mul], {"x": ["N", 4], "s": []}, ["y"]))
    batch = {"x": random_values(2, 4), "s": random_values(2)}
    assert refusal(mod, [batch], monkeypatch) == (
        "calibration batch 0, input 's' has the wrong shape: seen (2,); limit a scalar, (); "
        "reshape the data"
    )
