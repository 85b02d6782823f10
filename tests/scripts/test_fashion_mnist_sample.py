"""The shipped sample and the script that makes it."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from scripts import make_fashion_mnist_sample as maker


def _write_idx(path: Path, values: np.ndarray) -> None:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    path.write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))


def test_a_split_is_read_and_scaled(tmp_path: Path) -> None:
    pixels = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 256
    _write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", pixels)
    _write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([3, 9]))
    images, labels = maker.load_fashion_mnist("test", tmp_path)
    assert images.dtype == np.float32 and labels.dtype == np.int64
    np.testing.assert_array_equal(images[:, 0], ((pixels - 127.5) / 127.5).astype(np.float32))
    assert labels.tolist() == [3, 9]


def test_an_absent_data_set_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="run `apt-get install dataset-fashion-mnist`"):
        maker.load_fashion_mnist("train", tmp_path)


def test_an_unknown_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'valid' is unknown: choose from \['test', 'train'\]"):
        maker.load_fashion_mnist("valid", tmp_path)


def test_the_draw_is_balanced_and_repeatable() -> None:
    labels = np.repeat(np.arange(10), 50)
    drawn = maker.draw_stratified(labels, 7)
    assert np.bincount(labels[drawn]).tolist() == [7] * 10
    assert len(set(drawn.tolist())) == 70
    np.testing.assert_array_equal(drawn, maker.draw_stratified(labels, 7))


def test_the_sample_is_what_its_readme_says() -> None:
    test = np.load(maker.SAMPLE / "test_1000.npz")
    calibration = np.load(maker.SAMPLE / "calibration.npz")["input"]
    assert np.bincount(test["labels"]).tolist() == [100] * 10
    assert test["input"].shape == (1000, 1, 28, 28) and calibration.shape == (256, 1, 28, 28)
    assert test["input"].dtype == calibration.dtype == np.float32
    for images in (test["input"], calibration):
        assert images.min() == -1 and images.max() == 1


def test_the_float_model_scores_92_percent_on_the_sample() -> None:
    test = np.load(maker.SAMPLE / "test_1000.npz")
    session = onnxruntime.InferenceSession(maker.SAMPLE / "model.onnx")
    logits = [session.run(None, {"input": image[None]})[0] for image in test["input"]]
    top1 = np.mean(np.concatenate(logits).argmax(axis=1) == test["labels"])
    assert top1 == pytest.approx(0.920, abs=0.001)
