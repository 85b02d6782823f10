"""Images as inputs: size, crop, scaling, layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.data import DataError, ImageOptions, open_data

image_module = pytest.importorskip("PIL.Image")

PLANES = TensorSpec("x", (1, 3, 4, 6), "float32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three 8x12 images, one in a sub-folder."""
    rng = np.random.default_rng(0)
    (tmp_path / "b").mkdir()
    for name in ("a.png", "b/c.png", "d.bmp"):
        pixels = rng.integers(0, 256, (8, 12, 3), np.uint8)
        image_module.fromarray(pixels).save(tmp_path / name)
    return tmp_path


def _read(folder: Path, spec: TensorSpec, options: ImageOptions | None = None) -> np.ndarray:
    data = open_data(str(folder), [spec], options)
    assert data.samples == 3
    (batch,) = data.batches()
    return batch[spec.name]


def test_images_take_the_models_size(folder: Path) -> None:
    values = _read(folder, PLANES)
    assert values.shape == (3, 3, 4, 6) and values.dtype == np.float32
    assert values.min() >= 0 and values.max() <= 1


def test_pixels_are_scaled_per_channel(folder: Path) -> None:
    spec = TensorSpec("x", (None, 3, 8, 12), "float32")
    options = ImageOptions(mean=(0.5, 0.25, 0), std=(2, 1, 0.5))
    plain, scaled = _read(folder, spec), _read(folder, spec, options)
    mean, std = (np.array(v, np.float32).reshape(3, 1, 1) for v in (options.mean, options.std))
    assert np.allclose(scaled, (plain - mean) / std)
    with image_module.open(folder / "a.png") as image:
        assert np.allclose(plain[0], np.asarray(image).transpose(2, 0, 1) / 255)


def test_the_shorter_side_is_scaled_then_the_middle_cropped(folder: Path) -> None:
    spec = TensorSpec("x", (1, 4, 4, 3), "uint8")
    values = _read(folder, spec, ImageOptions(size=(4,), crop=(4,)))
    assert values.shape == (3, 4, 4, 3) and values.dtype == np.uint8
    whole = _read(folder, TensorSpec("x", (1, 4, 6, 3), "uint8"), ImageOptions(size=(4, 6)))
    assert np.array_equal(values, whole[:, :, 1:5])


def test_grey_models_get_grey_images(folder: Path) -> None:
    assert _read(folder, TensorSpec("x", (1, 1, 8, 12), "float32")).shape == (3, 1, 8, 12)


@pytest.mark.parametrize(
    ("spec", "options", "line"),
    [
        (
            TensorSpec("x", (1, 10), "float32"),
            ImageOptions(),
            "images cannot feed this model: seen x: float32 (1, 10); limit one input of 1 or 3 "
            "channels; give an .npz file",
        ),
        (
            PLANES,
            ImageOptions(mean=(1, 2)),
            "--mean has the wrong number of values: seen 2; limit 1 or 3",
        ),
        (
            PLANES,
            ImageOptions(size=(5, 5)),
            "image {folder}/a.png has the wrong shape: seen (3, 5, 5); limit (3, 4, 6); "
            "set --size and --crop",
        ),
    ],
)
def test_misfits_are_named(
    folder: Path, spec: TensorSpec, options: ImageOptions, line: str
) -> None:
    with pytest.raises(DataError) as caught:
        list(open_data(str(folder), [spec], options).batches())
    assert str(caught.value) == line.format(folder=folder)


def test_a_damaged_image_is_named(folder: Path) -> None:
    (folder / "a.png").write_bytes(b"no image")
    with pytest.raises(DataError, match="cannot read image .*a.png: seen cannot identify"):
        _read(folder, PLANES)
