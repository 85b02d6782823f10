"""Make the Fashion-MNIST sample of examples/fashion_mnist from Debian's dataset-fashion-mnist.

    python -m scripts.make_fashion_mnist_sample

The draw is seeded and the archives carry no time stamps, so a second run writes the same bytes.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

DATASET = Path("/usr/share/datasets/fashion-mnist")
SAMPLE = Path(__file__).resolve().parent.parent / "examples" / "fashion_mnist"
SEED = 0
TEST_IMAGES_PER_CLASS = 100
CALIBRATION_IMAGES = 256

_PREFIX = {"train": "train", "test": "t10k"}


def load_fashion_mnist(
    split: str, folder: Path = DATASET
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Load a whole split, "train" (60,000 images) or "test" (10,000).

    Returns images float32 (N, 1, 28, 28) = (pixel - 127.5) / 127.5 and labels int64 (N,).
    Raises ValueError for an unknown split, FileNotFoundError where the data set is not installed.
    """
    if split not in _PREFIX:
        raise ValueError(f"split {split!r} is unknown: choose from {sorted(_PREFIX)}")
    pixels = _read_idx(folder / f"{_PREFIX[split]}-images-idx3-ubyte.gz")
    labels = _read_idx(folder / f"{_PREFIX[split]}-labels-idx1-ubyte.gz")
    images = (pixels[:, None].astype(np.float32) - np.float32(127.5)) / np.float32(127.5)
    return images, labels.astype(np.int64)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one gzipped IDX file of unsigned bytes: 0, 0, 8, rank, big-endian sizes, data."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `apt-get install dataset-fashion-mnist`")
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">u4", rank, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def draw_stratified(
    labels: NDArray[np.int64], per_class: int, seed: int = SEED
) -> NDArray[np.int64]:
    """Draw `per_class` indices of every class, without replacement, then shuffle them all."""
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(np.flatnonzero(labels == label), per_class, replace=False)
        for label in np.unique(labels)
    ]
    return rng.permutation(np.concatenate(drawn))


def main() -> None:
    """Write test_1000.npz and calibration.npz."""
    images, labels = load_fashion_mnist("test")
    test = draw_stratified(labels, TEST_IMAGES_PER_CLASS)
    np.savez_compressed(SAMPLE / "test_1000.npz", input=images[test], labels=labels[test])
    images, _ = load_fashion_mnist("train")
    drawn = np.random.default_rng(SEED).choice(len(images), CALIBRATION_IMAGES, replace=False)
    np.savez_compressed(SAMPLE / "calibration.npz", input=images[drawn])


if __name__ == "__main__":
    main()
