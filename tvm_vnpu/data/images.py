"""A folder of images for a model with one image input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.data.dataset import Batch, DataError, rows_per_batch

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".pgm", ".ppm")


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """How an image becomes an input; sizes are (height, width) in pixels.

    `size`: one number scales the shorter side, two are height and width (default: the model's).
    `crop`: then a window in the middle. Pixels become (pixel / 255 - mean) / std, one value or one
    per channel; an integer input without mean and std gets the pixels as they are.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    size: tuple[int, ...] = ()
    crop: tuple[int, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """Return the names of the options that are set."""
        return tuple(entry.name for entry in fields(self) if getattr(self, entry.name))


@dataclass(frozen=True, slots=True)
class ImageData:
    """Images in order of their paths."""

    files: tuple[Path, ...]
    spec: TensorSpec
    channels: int
    channels_last: bool
    options: ImageOptions
    rows: int

    @staticmethod
    def open(
        files: Sequence[Path], inputs: Sequence[TensorSpec], options: ImageOptions
    ) -> ImageData:
        """Check model and options. Raises DataError where images cannot feed the model."""
        _pillow()
        images = [spec for spec in inputs if len(spec.shape) == 4]
        shape = images[0].shape if images else ()
        last = bool(shape) and shape[1] not in (1, 3) and shape[3] in (1, 3)
        channels = (shape[3] if last else shape[1]) if shape else None
        if len(inputs) != 1 or channels not in (1, 3):
            raise DataError(
                "images cannot feed this model",
                seen=", ".join(spec.describe() for spec in inputs),
                limit="one input of 1 or 3 channels",
                fix="give an .npz file",
            )
        for name in ("mean", "std"):
            if len(getattr(options, name)) not in (0, 1, channels):
                raise DataError(
                    f"--{name} has the wrong number of values",
                    seen=len(getattr(options, name)),
                    limit=f"1 or {channels}",
                )
        return ImageData(tuple(files), inputs[0], channels, last, options, rows_per_batch(inputs))

    @property
    def samples(self) -> int:
        """Return the number of images."""
        return len(self.files)

    def batches(self) -> Iterator[Batch]:
        """Yield the images, decoded and scaled."""
        for first in range(0, len(self.files), self.rows):
            arrays = [self._read(path) for path in self.files[first : first + self.rows]]
            yield {self.spec.name: np.stack(arrays)}

    def _read(self, path: Path) -> NDArray[Any]:
        image_module = _pillow()
        try:
            with image_module.open(path) as image:
                image = image.convert("L" if self.channels == 1 else "RGB")
                pixels = np.asarray(self._cropped(self._scaled(image)))
        except Exception as error:  # Pillow raises any type for a file that it does not expect
            raise DataError(
                f"cannot read image {path}",
                seen=(str(error).splitlines() or [type(error).__name__])[0],
                fix="check that the file is a complete image",
            ) from error
        pixels = pixels.reshape(*pixels.shape[:2], self.channels)
        values = self._normalised(pixels)
        values = values if self.channels_last else values.transpose(2, 0, 1)
        self._check(path, values.shape)
        return np.ascontiguousarray(values)

    def _scaled(self, image: Any) -> Any:
        size = self.options.size or (() if self.options.crop else self._model_size())
        if len(size) == 1:
            factor = size[0] / min(image.size)
            size = (round(image.height * factor), round(image.width * factor))
        if not size or size == (image.height, image.width):
            return image
        return image.resize((size[1], size[0]), _pillow().Resampling.BILINEAR)

    def _model_size(self) -> tuple[int, ...]:
        height, width = self.spec.shape[1:3] if self.channels_last else self.spec.shape[2:4]
        return (height, width) if height and width else ()

    def _cropped(self, image: Any) -> Any:
        if not self.options.crop:
            return image
        height, width = self.options.crop[0], self.options.crop[-1]
        left, top = (image.width - width) // 2, (image.height - height) // 2
        return image.crop((left, top, left + width, top + height))

    def _normalised(self, pixels: NDArray[Any]) -> NDArray[Any]:
        options = self.options
        if not options.mean and not options.std and not self.spec.dtype.startswith("float"):
            return pixels.astype(self.spec.dtype)
        mean = np.array(options.mean or (0.0,), np.float32)
        std = np.array(options.std or (1.0,), np.float32)
        return ((pixels.astype(np.float32) / 255 - mean) / std).astype(self.spec.dtype)

    def _check(self, path: Path, shape: tuple[int, ...]) -> None:
        wanted = self.spec.shape[1:]
        if any(w not in (None, n) for w, n in zip(wanted, shape)):
            raise DataError(
                f"image {path} has the wrong shape",
                seen=shape,
                limit=wanted,
                fix="set --size and --crop",
            )


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            "reading images needs Pillow", fix="pip install 'tvm-vnpu[images]'"
        ) from error
    return Image
