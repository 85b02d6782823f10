"""EfficientNet-Lite0 quantised by onnxruntime, as QDQ and as QOperator ONNX.

    python -m benchmarks.relay_efficientnet_models [FOLDER]

Prints the folder of the models and labelled photos. Its name is a hash of the weights, of the
calibration photographs and of onnxruntime's version: a folder that exists is up to date. Int8
activations, int8 weights per channel, least and greatest value of real crops as ranges.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from benchmarks import harness
from examples.efficientnet_lite0.model import WEIGHTS, onnx_model, weights_folder
from examples.efficientnet_lite0.photos import (
    PhotoSet,
    calibration_crops,
    digest,
    labelled_photos,
)

FORMS = {"qdq": QuantFormat.QDQ, "qoperator": QuantFormat.QOperator}


class _Crops(CalibrationDataReader):
    """Feeds images one by one, as onnxruntime asks for them."""

    def __init__(self, photos: PhotoSet) -> None:
        self._rest = iter(photos.inputs)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Return the next feed, or None after the last."""
        image = next(self._rest, None)
        return None if image is None else {"input": image[None]}


def models_folder(parent: Path) -> Path:
    """Return the folder of the quantised models under `parent`, made if it is not there."""
    calibration, weights = calibration_crops(), digest([weights_folder() / WEIGHTS])
    version = onnxruntime.__version__
    folder = parent / f"efficientnet-{weights[:8]}-{calibration.digest[:8]}-ort{version}"
    if folder.is_dir():
        return folder
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as name:
        made = Path(name) / "models"
        made.mkdir()
        photos = labelled_photos()
        facts: dict[str, object] = {
            "weights_sha256": weights,
            "calibration_crops": len(calibration.inputs),
            "calibration_photos_sha256": calibration.digest,
            "scored_photos_sha256": photos.digest,
            "onnxruntime": version,
        }
        _quantise(made, calibration)
        for form in FORMS:
            facts[f"top1_onnxruntime_{form}"] = _top1(made / f"{form}.onnx", photos)
        np.savez(made / "photos.npz", input=photos.inputs, labels=photos.labels)
        (made / "facts.json").write_text(json.dumps(facts, indent=2), encoding="utf-8")
        shutil.move(made, folder)
    return folder


def _quantise(folder: Path, calibration: PhotoSet) -> None:
    onnx.save(onnx_model(), folder / "float.onnx")
    for form, quant_format in FORMS.items():
        quantize_static(
            folder / "float.onnx", folder / f"{form}.onnx", _Crops(calibration),
            quant_format=quant_format, per_channel=True, activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax,
        )  # fmt: skip


def _top1(path: Path, photos: PhotoSet) -> int:
    session = onnxruntime.InferenceSession(path)
    classes = [session.run(None, {"input": image[None]})[0].argmax() for image in photos.inputs]
    return int((np.array(classes) == photos.labels).sum())


def main(arguments: list[str]) -> int:
    """Print the folder, by default below build/benchmarks."""
    print(models_folder(Path(arguments[0]) if arguments else harness.QUICK_RESULTS))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
