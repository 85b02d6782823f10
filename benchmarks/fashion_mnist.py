"""Fashion-MNIST on the simulated NPU: accuracy on all 10,000 test images, cycles per layer.

    python -m benchmarks.fashion_mnist [--quick]

Calibrates with the 256 shipped training images. The float model runs in onnxruntime. `--quick`
takes the 1,000 shipped test images. Fails when int8 is more than 0.5 points below float.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.harness import ROOT, argument_parser, print_table, results_folder, write_result
from scripts.make_fashion_mnist_sample import load_fashion_mnist
from tvm_vnpu.artifact import Artifact, compile_model
from tvm_vnpu.report.profile import Profile

SAMPLE = ROOT / "examples" / "fashion_mnist"
MODEL = SAMPLE / "model.onnx"
NPU = "vnpu-256"
MAX_POINTS_LOST = 0.5
_BATCH = 100


def main() -> int:
    """Measure, print, record; the exit code says whether the accuracy holds."""
    arguments = argument_parser("Fashion-MNIST: accuracy, cycles, speed.").parse_args()
    images, labels = _test_set(arguments)
    with tempfile.TemporaryDirectory() as folder:
        artifact = compile_model(
            MODEL, Path(folder) / "artifact", calibration=_calibration(), npu=NPU
        )
        profile = artifact.profile()
        scores, seconds = _simulate(artifact, images)
    float_scores = _float_scores(images)
    figures = _figures(scores, float_scores, labels, seconds, profile)
    configuration = {
        "model": str(MODEL.relative_to(ROOT)),
        "npu": NPU,
        "rounding": profile.rounding,
        "calibration_images": 256,
        "cpu_cores": os.cpu_count(),
    }
    recorded = {**figures, "layers": _layers(profile)}
    write_result("fashion_mnist", recorded, configuration, results_folder(arguments))
    print_table([[name, value] for name, value in figures.items()], ["figure", "value"])
    print(f"\n{profile}")
    lost = figures["top1_float_percent"] - figures["top1_int8_percent"]
    if lost > MAX_POINTS_LOST:
        print(f"int8 loses {lost:.2f} points: at most {MAX_POINTS_LOST}", file=sys.stderr)
    return int(lost > MAX_POINTS_LOST)


def _test_set(arguments: argparse.Namespace) -> tuple[NDArray[Any], NDArray[Any]]:
    if not arguments.quick:
        return load_fashion_mnist("test")
    with np.load(SAMPLE / "test_1000.npz") as sample:
        return sample["input"], sample["labels"]


def _calibration() -> list[dict[str, NDArray[Any]]]:
    with np.load(SAMPLE / "calibration.npz") as sample:
        images = sample["input"]
    return [{"input": images[i : i + 32]} for i in range(0, len(images), 32)]


def _simulate(artifact: Artifact, images: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Return the scores of all images and the seconds that took."""
    artifact.run({"input": images[:1]})
    begin = time.perf_counter()
    scores = [
        artifact.run({"input": images[i : i + _BATCH]})["logits"]
        for i in tqdm(range(0, len(images), _BATCH), desc="simulate", delay=2)
    ]
    return np.concatenate(scores), time.perf_counter() - begin


def _float_scores(images: NDArray[Any]) -> NDArray[Any]:
    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    scores = [session.run(None, {"input": images[i : i + 1]})[0] for i in range(len(images))]
    return np.concatenate(scores)


def _figures(
    scores: NDArray[Any],
    float_scores: NDArray[Any],
    labels: NDArray[Any],
    seconds: float,
    profile: Profile,
) -> dict[str, Any]:
    best, float_best = scores.argmax(1), float_scores.argmax(1)
    return {
        "test_images": len(labels),
        "top1_int8_percent": round(float((best == labels).mean()) * 100, 2),
        "top1_float_percent": round(float((float_best == labels).mean()) * 100, 2),
        "same_class_percent": round(float((best == float_best).mean()) * 100, 2),
        "cycles_per_inference": profile.cycles,
        "lower_bound_cycles": profile.lower_bound_cycles,
        "time_ms": round(profile.time_ms, 5),
        "inferences_per_second": round(profile.inferences_per_second),
        "array_utilization_percent": round(profile.utilization * 100, 1),
        "regions": profile.regions,
        "cpu_operators": profile.cpu_operators,
        "simulated_images_per_second": round(len(labels) / seconds, 1),
    }


def _layers(profile: Profile) -> list[dict[str, Any]]:
    return [
        {
            "layer": " + ".join(layer.nodes) or layer.name,
            "operator": layer.operator,
            "cycles": layer.cycles,
            "macs": layer.macs,
            "array_use_percent": round(layer.utilization * 100, 1),
            "lower_bound_cycles": layer.lower_bound_cycles,
            "bound": layer.bound,
        }
        for layer in profile.layers
    ]


if __name__ == "__main__":
    sys.exit(main())
