"""Write the network, calibration crops and labelled photos, for the vnpu command.

python -m examples.efficientnet_lite0 [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx

from examples.efficientnet_lite0.model import onnx_model
from examples.efficientnet_lite0.photos import calibration_crops, labelled_photos
from runtime_sim.errors import VnpuError

NEXT = """\
wrote {folder}/model.onnx, calibration.npz and photos.npz; now try
  vnpu compile {folder}/model.onnx --calib {folder}/calibration.npz -o {folder}/vnpu-256
  vnpu eval {folder}/vnpu-256 --validate {folder}/photos.npz
  vnpu profile {folder}/vnpu-256 --trace {folder}/trace.json
"""


def main(arguments: list[str]) -> int:
    """Write the files into a folder, by default build/efficientnet_lite0."""
    folder = Path(arguments[0] if arguments else "build/efficientnet_lite0")
    try:
        model, calibration, photos = onnx_model(), calibration_crops(), labelled_photos()
    except VnpuError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    np.savez_compressed(folder / "calibration.npz", input=calibration.inputs)
    np.savez_compressed(folder / "photos.npz", input=photos.inputs, labels=photos.labels)
    sys.stdout.write(NEXT.format(folder=folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
