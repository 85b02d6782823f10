"""Photographs from pip packages: foolbox's labelled ImageNet photos, scikit-image's samples.

Calibration uses crops of the scikit-image photographs, scoring the foolbox ones, so that no
photograph serves both. Every set is named by the hash of the files behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from examples.efficientnet_lite0.model import package_folder

SIZE = 224
CENTRE = 0.875
SKIMAGE_PHOTOS = (
    "astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png",
    "hubble_deep_field.jpg", "ihc.png", "retina.jpg",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PhotoSet:
    """Network inputs (n, 3, 224, 224) float32; `group[i]` is the photograph that i was cut from."""

    inputs: np.ndarray
    group: np.ndarray
    labels: np.ndarray
    digest: str


def labelled_photos() -> PhotoSet:
    """Return the 20 foolbox photos as centre crops, labelled by ImageNet class."""
    paths = foolbox_paths()
    inputs = np.stack([to_input(centre_crop(open_photo(path))) for path in paths])
    labels = np.array([int(path.stem.rsplit("_", 1)[1]) for path in paths])
    return PhotoSet(inputs, np.arange(len(paths)), labels, digest(paths))


def calibration_crops(per_photo: int = 8, seed: int = 0) -> PhotoSet:
    """Return seeded crops of the scikit-image photographs; no labels (-1)."""
    folder = package_folder("skimage", "scikit-image") / "data"
    return random_crops([folder / name for name in SKIMAGE_PHOTOS], per_photo, seed)


def scoring_crops(per_photo: int = 25, seed: int = 1) -> PhotoSet:
    """Return seeded crops of the foolbox photos, none of which calibrates; no labels (-1)."""
    return random_crops(foolbox_paths(), per_photo, seed)


def foolbox_paths() -> list[Path]:
    """Return the foolbox ImageNet photos in order."""
    return sorted((package_folder("foolbox", "foolbox") / "data").glob("imagenet_*.jpg"))


def random_crops(paths: Sequence[Path], per_photo: int, seed: int) -> PhotoSet:
    """Return `per_photo` squares of each photo: 50 to 100 % of its shorter side, some mirrored."""
    rng = np.random.default_rng(seed)
    inputs, group = [], []
    for index, path in enumerate(paths):
        photo = open_photo(path)
        for _ in range(per_photo):
            inputs.append(to_input(_random_crop(photo, rng)))
            group.append(index)
    labels = np.full(len(inputs), -1)
    return PhotoSet(np.stack(inputs), np.array(group), labels, digest(paths))


def _random_crop(photo: Image.Image, rng: np.random.Generator) -> Image.Image:
    width, height = photo.size
    side = int(min(width, height) * rng.uniform(0.5, 1.0))
    left, top = int(rng.integers(width - side + 1)), int(rng.integers(height - side + 1))
    crop = photo.crop((left, top, left + side, top + side))
    return crop.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else crop


def open_photo(path: Path) -> Image.Image:
    """Return a photo as RGB."""
    with Image.open(path) as photo:
        return photo.convert("RGB")


def centre_crop(photo: Image.Image) -> Image.Image:
    """Return the centre square, 87.5 % of the shorter side."""
    width, height = photo.size
    side = round(min(width, height) * CENTRE)
    left, top = (width - side) // 2, (height - side) // 2
    return photo.crop((left, top, left + side, top + side))


def to_input(crop: Image.Image) -> np.ndarray:
    """Return a crop as (3, 224, 224) float32: bicubic, (pixel - 127) / 128."""
    pixels = np.asarray(crop.resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.float32)
    return np.ascontiguousarray(((pixels - 127) / 128).transpose(2, 0, 1))


def digest(paths: Sequence[Path]) -> str:
    """Return 16 hexadecimal digits that name a list of files by name and content."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]
