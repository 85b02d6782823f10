"""EfficientNet-Lite0 through the Relay door: coverage, exactness, accuracy, compile times.

    python -m benchmarks.relay_efficientnet [--quick]

onnxruntime quantises the network in the environment with Relax (benchmarks/
relay_efficientnet_models.py); TVM 0.19 reads both forms, QDQ and QOperator. The oracle is
`relay.build` of the same prepared module for the CPU with int64 requantisation; all 20 labelled
photos are scored and compared. Quick: the QOperator form alone, and 4 photos.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from runtime_sim import timing
from runtime_sim.npu import load
from tests.doors.programs import door

NPU = "vnpu-256"
MIN_TOP1 = 17
CONVOLUTIONS, ADDITIONS = 49, 9
FORMS = ("qdq", "qoperator")
QUICK_FORMS, QUICK_PHOTOS = ("qoperator",), 4
_EXPECTED = {"conv2d": CONVOLUTIONS, "dense": 1, "eltwise": ADDITIONS, "avg_pool2d": 1}


def measure(path: Path, photos: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Return the figures of one ONNX file; runs where TVM is 0.19."""
    from tests.relay.running import build, build_for_cpu, exact, execute
    from tvm_vnpu.frontend.compiled_regions import collect_regions
    from tvm_vnpu.relay import explain, from_onnx, load_onnx, partition_for_vnpu
    from tvm_vnpu.relay.prepare import prepare

    seconds, watch = {}, _Watch()
    mod = from_onnx(load_onnx(path))
    seconds["import_s"] = watch.lap()
    with exact():
        partitioned = partition_for_vnpu(mod, npu=NPU)
        seconds["partition_s"] = watch.lap()
        explanation = explain(partitioned, npu=NPU)
        watch.lap()
        with collect_regions() as regions:
            on_npu = build(partitioned)
        seconds["build_s"] = watch.lap()
        on_cpu = build_for_cpu(prepare(mod))
        seconds["build_for_the_cpu_s"] = watch.lap()
    ours = [execute(on_npu, {"input": image[None]})[0] for image in photos]
    theirs = [execute(on_cpu, {"input": image[None]})[0] for image in photos]
    correct = [int(a.argmax() == label) for a, label in zip(ours, labels, strict=True)]
    return {
        **_coverage(explanation),
        "values_compared": sum(array.size for array in theirs),
        "values_differing": sum(
            int((a != b).sum()) for a, b in zip(ours, theirs, strict=True)
        ),
        "top1_correct": sum(correct),
        "photos": len(photos),
        "cycles": sum(_cycles(region.program) for region in regions),
        **seconds,
    }  # fmt: skip


class _Watch:
    """Measures seconds between laps."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        start, self._start = self._start, time.perf_counter()
        return round(self._start - start, 1)


def _coverage(explanation: Any) -> dict[str, Any]:
    on_npu = Counter(p.operator for p in explanation.placements if p.device == "npu")
    left = [p for p in explanation.placements if p.device == "cpu"]
    return {
        "convolutions_on_npu": on_npu["vnpu.conv2d"],
        "dense_on_npu": on_npu["vnpu.dense"],
        "additions_on_npu": on_npu["vnpu.eltwise"],
        "poolings_on_npu": on_npu["vnpu.avg_pool2d"],
        "regions": explanation.regions,
        "cpu_operators": len(left),
        "cpu_reasons": sorted({f"{p.node}: {p.reason}" for p in left}),
    }


def _cycles(program: Any) -> int:
    return int(timing.simulate(program.assemble().words, load(NPU)).total)


def failures(form: str, figures: dict[str, Any], quick: bool) -> list[str]:
    """Return what falls short of the bounds."""
    names = ("convolutions_on_npu", "dense_on_npu", "additions_on_npu", "poolings_on_npu")
    short = [
        f"{name} {figures[name]}, not {wanted}"
        for name, wanted in zip(names, _EXPECTED.values(), strict=True)
        if figures[name] != wanted
    ]
    if figures["cpu_operators"] or figures["regions"] != 1:
        short.append(f"not one region: {figures['cpu_reasons']}")
    if figures["values_differing"]:
        short.append(f"{figures['values_differing']} values differ from TVM's CPU build")
    if not quick and figures["top1_correct"] < MIN_TOP1:
        short.append(f"top-1 below {MIN_TOP1} of 20")
    return [f"{form}: {text}" for text in short]


def main() -> int:
    """Measure, print, record; the exit code says whether the bounds hold."""
    arguments = harness.argument_parser("EfficientNet-Lite0 through the Relay door.").parse_args()
    if door() != "relay":
        return _python(".venv-relay", "benchmarks.relay_efficientnet", *sys.argv[1:]).returncode
    made = _python(".venv", "benchmarks.relay_efficientnet_models", stdout=subprocess.PIPE)
    if made.returncode:
        return int(made.returncode)
    models = Path(made.stdout.splitlines()[-1])
    facts = json.loads((models / "facts.json").read_text(encoding="utf-8"))
    with np.load(models / "photos.npz") as data:
        photos, labels = data["input"], data["labels"]
    count = QUICK_PHOTOS if arguments.quick else len(photos)
    forms = QUICK_FORMS if arguments.quick else FORMS
    figures = {
        form: measure(models / f"{form}.onnx", photos[:count], labels[:count]) for form in forms
    }
    rows = [[name, *(figures[form][name] for form in forms)] for name in figures[forms[0]]]
    harness.print_table(rows, ["figure", *forms])
    harness.write_result(
        "relay_efficientnet", figures, {"npu": NPU, **facts}, harness.results_folder(arguments)
    )
    short = [text for form in forms for text in failures(form, figures[form], arguments.quick)]
    for text in short:
        print(text, file=sys.stderr)
    return int(bool(short))


def _python(environment: str, module: str, *arguments: str, **options: Any) -> Any:
    """Run a module in one of the two environments that scripts/test makes."""
    command = [str(harness.ROOT / environment / "bin" / "python"), "-m", module, *arguments]
    return subprocess.run(command, cwd=harness.ROOT, check=False, text=True, **options)


if __name__ == "__main__":
    raise SystemExit(main())
