"""The shipped Fashion-MNIST model: accuracy after quantisation, scales as onnxruntime's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_static,
)
from tvm import relax

from tvm_vnpu.quantize import quantize
from tvm_vnpu.relax.importer import from_onnx, load_onnx
from tvm_vnpu.relax.rewrite import bindings_of, is_call

FOLDER = Path("examples/fashion_mnist")


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / FOLDER


@pytest.fixture(scope="module")
def quantised(folder: Path) -> tvm.IRModule:
    images = np.load(folder / "calibration.npz")["input"]
    return quantize(from_onnx(load_onnx(folder / "model.onnx")), [{"input": images}])


def top1(mod: tvm.IRModule, folder: Path) -> float:
    """Return the share of the 1,000 test images a module classifies right, in percent."""
    data = np.load(folder / "test_1000.npz")
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    logits = [machine["main"](tvm.runtime.tensor(x[None])).numpy()[0] for x in data["input"]]
    return float((np.argmax(logits, axis=1) == data["labels"]).mean() * 100)


def test_top1_is_within_half_a_point(quantised: tvm.IRModule, folder: Path) -> None:
    reference = top1(from_onnx(load_onnx(folder / "model.onnx")), folder)
    assert abs(top1(quantised, folder) - reference) <= 0.5


class _Reader(CalibrationDataReader):
    def __init__(self, images: np.ndarray) -> None:
        self.feeds = iter([{"input": image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


def test_scales_equal_onnxruntime(quantised: tvm.IRModule, folder: Path, tmp_path: Path) -> None:
    """Weights equal exactly; activation ranges differ by float summation order only."""
    images = np.load(folder / "calibration.npz")["input"]
    path = tmp_path / "q.onnx"
    quantize_static(
        str(folder / "model.onnx"), str(path), _Reader(images), quant_format=QuantFormat.QDQ,
        per_channel=True, activation_type=QuantType.QInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    theirs = from_onnx(onnx.load(path))
    ours_w, ours_a = parameters(quantised)
    their_w, their_a = parameters(theirs)
    assert len(ours_w) == len(their_w) and len(ours_a) == len(their_a)
    for mine, reference in zip(ours_w, their_w):
        np.testing.assert_array_equal(mine, reference)
    np.testing.assert_allclose([s for s, _ in ours_a], [s for s, _ in their_a], rtol=1e-5)
    assert [z for _, z in ours_a] == [z for _, z in their_a]


def parameters(mod: tvm.IRModule) -> tuple[list[np.ndarray], list[tuple[float, int]]]:
    """Return the int8 weights and the (scale, zero point) of the activations, in order."""
    weights, activations = [], []
    for binding in bindings_of(mod["main"]):
        call = binding.value
        if is_call(call, "relax.quantize"):
            scale, zero_point = (float(arg.value.numpy()) for arg in call.args[1:3])
            activations.append((scale, int(zero_point)))
        elif is_call(call, "relax.dequantize") and isinstance(call.args[0], tvm.ir.GenericConst):
            value = call.args[0].value.numpy()
            if value.dtype == np.int8:
                weights.append(value)
    return weights, activations
