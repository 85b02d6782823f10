"""EfficientNet-Lite0 on the simulated NPU: accuracy, fidelity to float, bit-exactness.

    python -m benchmarks.efficientnet [--quick]

Calibrates on crops of scikit-image's photographs; scores the 20 labelled foolbox photos and 500
crops of them. Intervals are 95 % percentile bootstraps that resample photographs, not crops,
since crops of one photograph resemble each other. The float model runs in onnxruntime.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.harness import argument_parser, print_table, results_folder, write_result
from codegen.evaluate import evaluate
from codegen.program import NpuProgram
from examples.efficientnet_lite0.model import onnx_model
from examples.efficientnet_lite0.photos import (
    PhotoSet,
    calibration_crops,
    labelled_photos,
    scoring_crops,
)
from runtime_sim.machine import Machine
from runtime_sim.npu import load
from tvm_vnpu.frontend.compiled_regions import collect_regions
from tvm_vnpu.quantize import quantize
from tvm_vnpu.relax import explain, from_onnx, partition_for_vnpu

NPU = "vnpu-256"
MIN_TOP1, MIN_SQNR_DB = 17, 18.0
RESAMPLES = 2000
Array = NDArray[Any]


def main() -> int:
    """Measure, print, record; the exit code says whether the bounds hold."""
    arguments = argument_parser("EfficientNet-Lite0: accuracy and exactness.").parse_args()
    model, calibration = onnx_model(), calibration_crops()
    mod = quantize(from_onnx(model), _batches(calibration), npu=NPU)
    placements = explain(mod, NPU).placements
    with collect_regions() as regions:
        partition_for_vnpu(mod, NPU)
    network = _Simulated(regions[0].program)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    photos, crops = labelled_photos(), scoring_crops(2 if arguments.quick else 25)
    figures = _coverage(network.program, len(regions), placements)
    figures |= _top1(photos, network, session)
    figures |= _fidelity(crops, network, session)
    figures |= _differences(photos.inputs[: 1 if arguments.quick else 5], network)
    configuration = {
        "npu": NPU,
        "calibration_crops": len(calibration.inputs),
        "calibration_photos_sha256": calibration.digest,
        "scored_crops": len(crops.inputs),
        "scored_photos_sha256": crops.digest,
        "bootstrap_resamples": RESAMPLES,
    }
    write_result("efficientnet", figures, configuration, results_folder(arguments))
    print_table([[name, value] for name, value in figures.items()], ["figure", "value"])
    return _verdict(figures)


def _verdict(figures: dict[str, Any]) -> int:
    failures = [
        text
        for failed, text in (
            (figures["top1_correct_of_20"] < MIN_TOP1, f"top-1 below {MIN_TOP1} of 20"),
            (figures["sqnr_db"] < MIN_SQNR_DB, f"SQNR below {MIN_SQNR_DB} dB"),
            (figures["regions"] != 1 or figures["cpu_operators"], "operators on the CPU"),
            (figures["values_differing_command_by_command"], "the merged plan differs"),
            (figures["values_differing_reference"], "the reference differs"),
        )
        if failed
    ]
    for text in failures:
        print(text, file=sys.stderr)
    return int(bool(failures))


class _Simulated:
    """The network's one region on the machine, merged or command by command."""

    def __init__(self, program: NpuProgram) -> None:
        self.program, self.machine = program, Machine(load(NPU))
        self.words = program.assemble().words

    def __call__(self, image: Array, merge: bool = True) -> Array:
        """Return the logits (1000,) of one image (3, 224, 224)."""
        logits = np.zeros(1000, np.float32)
        regions = {
            0: self.program.constants,
            1: np.zeros(self.program.arena_bytes, np.uint8),
            2: np.ascontiguousarray(image).reshape(-1).view(np.uint8),
            3: logits.view(np.uint8),
        }
        self.machine.execute(self.words, regions, merge=merge)
        return logits


def _batches(photos: PhotoSet) -> list[dict[str, Array]]:
    return [{"input": image[None]} for image in photos.inputs]


def _coverage(program: NpuProgram, regions: int, placements: Any) -> dict[str, Any]:
    kinds = [layer.operator.kind for layer in program.layers]
    return {
        "regions": regions,
        "cpu_operators": sum(placement.device == "cpu" for placement in placements),
        "convolutions_on_npu": kinds.count("conv2d") + kinds.count("depthwise"),
        "additions_on_npu": kinds.count("eltwise"),
        "poolings_on_npu": kinds.count("average_pool"),
        "dense_on_npu": kinds.count("dense"),
        "commands": len(program.assemble().words),
    }


def _float(session: onnxruntime.InferenceSession, image: Array) -> Array:
    return session.run(None, {"input": image[None]})[0][0]


def _top1(photos: PhotoSet, network: _Simulated, session: Any) -> dict[str, Any]:
    ours = np.array([network(image).argmax() for image in photos.inputs])
    real = np.array([_float(session, image).argmax() for image in photos.inputs])
    return {
        "top1_correct_of_20": int((ours == photos.labels).sum()),
        "top1_correct_of_20_float": int((real == photos.labels).sum()),
    }


def _fidelity(crops: PhotoSet, network: _Simulated, session: Any) -> dict[str, Any]:
    agree, sqnr = [], []
    for image in tqdm(crops.inputs, desc="crops", delay=2):
        ours, real = network(image), _float(session, image)
        agree.append(float(ours.argmax() == real.argmax()) * 100)
        sqnr.append(10 * np.log10((real**2).sum() / ((ours - real) ** 2).sum()))
    figures: dict[str, Any] = {"crops": len(agree), "photographs": int(crops.group.max()) + 1}
    for name, values in (("top1_agreement_percent", agree), ("sqnr_db", sqnr)):
        low, high = _interval(np.array(values), crops.group, np.mean)
        figures[name] = round(float(np.mean(values)), 2)
        figures[f"{name}_95"] = f"{low:.2f} to {high:.2f}"
    return figures


def _interval(
    values: Array, group: Array, statistic: Callable[[Array], Any]
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval, resampling whole groups."""
    rng, members = np.random.default_rng(0), [values[group == g] for g in np.unique(group)]
    picks = rng.integers(len(members), size=(RESAMPLES, len(members)))
    means = [statistic(np.concatenate([members[i] for i in pick])) for pick in picks]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _differences(images: Array, network: _Simulated) -> dict[str, Any]:
    """Count the values that differ between merged plan, single commands and reference."""
    single = reference = 0
    for image in tqdm(images, desc="oracles", delay=2):
        merged = network(image)
        single += int((merged != network(image, merge=False)).sum())
        (expected,) = evaluate(network.program.graph, [image[None]])
        reference += int((merged != expected.reshape(-1)).sum())
    return {
        "photos_compared": len(images),
        "values_differing_command_by_command": single,
        "values_differing_reference": reference,
    }


if __name__ == "__main__":
    raise SystemExit(main())
