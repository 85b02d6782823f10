"""How fast the machine runs EfficientNet-Lite0, beside onnxruntime and TVM on the same cores.

    python -m benchmarks.simulator [--quick]

All contestants take turns in one process, so that a busy moment hits each of them; a figure is the
median of its turns. Peak memory is that of a process that only loads the compiled program and runs
one photograph.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from numpy.typing import NDArray
from onnxruntime import quantization
from tvm import relax

from benchmarks.harness import ROOT, argument_parser, print_table, results_folder, write_result
from codegen.program import NpuProgram
from examples.efficientnet_lite0.model import onnx_model
from examples.efficientnet_lite0.photos import calibration_crops, labelled_photos
from runtime_sim.isa.codec import Words
from runtime_sim.isa.fields import Queue
from runtime_sim.machine import Machine, PlanCache
from runtime_sim.merge.blas import one_thread
from runtime_sim.merge.bound import BoundLayer
from runtime_sim.merge.layers import Layer
from runtime_sim.merge.program import default_threads
from runtime_sim.npu import load
from runtime_sim.timing import simulate
from tvm_vnpu.frontend.compiled_regions import collect_regions
from tvm_vnpu.quantize import quantize
from tvm_vnpu.relax import from_onnx, partition_for_vnpu

NPU = "vnpu-256"
CALIBRATION_PHOTOS = 8
MAX_RATIO, MAX_MEMORY_MB = 12.0, 1000.0
Array = NDArray[Any]
Run = Callable[[], Array]
_ALONE = """
import pickle, sys
from pathlib import Path
import numpy as np
from runtime_sim.machine import Machine
from runtime_sim.npu import load
words, constants, arena, image, npu = pickle.load(open(sys.argv[1], "rb"))
regions = {0: constants, 1: np.zeros(arena, np.uint8), 2: image, 3: np.zeros(4000, np.uint8)}
Machine(load(npu)).execute(words, regions)
# Not getrusage: its peak counts the parent that forked.
status = Path("/proc/self/status").read_text().split("VmHWM:")[1]
print(int(status.split()[0]) / 1024)
"""


def main() -> int:
    """Measure, print, record; the exit code says whether the bounds hold."""
    arguments = argument_parser("Speed and memory of the simulator.").parse_args()
    model, image = onnx_model(), labelled_photos().inputs[:1]
    photos = [{"input": photo[None]} for photo in calibration_crops(1).inputs]
    mod = quantize(from_onnx(model), photos[:CALIBRATION_PHOTOS], npu=NPU)
    with collect_regions() as regions:
        partition_for_vnpu(mod, NPU)
    program = regions[0].program
    words = program.assemble().words
    figures = _building(program, words)
    turns = 3 if arguments.quick else 25
    figures |= _contest(program, words, mod, model, photos, image, turns)
    figures["peak_memory_mb"] = _measured_apart(program, words, image)
    configuration = {"npu": NPU, "threads": default_threads(), "turns": turns}
    write_result("simulator", figures, configuration, results_folder(arguments))
    print_table([[name, value] for name, value in figures.items()], ["figure", "value"])
    _print_layers(program, words, image)
    return _verdict(figures)


def _verdict(figures: dict[str, Any]) -> int:
    failures = [
        text
        for failed, text in (
            (figures["values_differing"], "the merged plan differs from single commands"),
            (figures["merged_over_onnxruntime"] > MAX_RATIO, f"over {MAX_RATIO} x onnxruntime"),
            (figures["merged_over_tvm_llvm"] > 1, "slower than stock TVM"),
            (figures["peak_memory_mb"] > MAX_MEMORY_MB, f"over {MAX_MEMORY_MB} MB"),
        )
        if failed
    ]
    for text in failures:
        print(text, file=sys.stderr)
    return int(bool(failures))


def _building(program: NpuProgram, words: Words) -> dict[str, Any]:
    """Return what happens once a program: decoding and checking, merging, the timeline."""
    config = load(NPU)
    begin = time.perf_counter()
    plan = Machine(config, cache=PlanCache()).plan(words)
    decoded = time.perf_counter()
    actions = plan.program.actions
    merged = time.perf_counter()
    simulate(words, config)
    timed = time.perf_counter()
    return {
        "commands": len(words),
        "merged_operations": sum(isinstance(action, Layer) for action in actions),
        "commands_left": sum(not isinstance(action, Layer) for action in actions),
        "plan_ms": (decoded - begin) * 1e3,
        "merge_ms": (merged - decoded) * 1e3,
        "timeline_commands_per_s": int(len(words) / (timed - merged)),
    }


def _regions(program: NpuProgram, image: Array, logits: Array) -> dict[int, Array]:
    return {
        0: program.constants,
        1: np.zeros(program.arena_bytes, np.uint8),
        2: np.ascontiguousarray(image).reshape(-1).view(np.uint8),
        3: logits.view(np.uint8),
    }


def _simulated(program: NpuProgram, words: Words, image: Array, **options: Any) -> Run:
    machine = Machine(load(NPU))

    def run() -> Array:
        logits = np.zeros(1000, np.float32)
        machine.execute(words, _regions(program, image, logits), **options)
        return logits

    return run


def _stock_tvm(mod: tvm.IRModule, image: Array) -> Run:
    machine = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    tensor = tvm.runtime.tensor(image)
    return lambda: machine["main"](tensor).numpy()


def _contest(
    program: NpuProgram,
    words: Words,
    mod: tvm.IRModule,
    model: onnx.ModelProto,
    photos: Sequence[dict[str, Array]],
    image: Array,
    turns: int,
) -> dict[str, Any]:
    """Return the median time of each contestant, in milliseconds, and the ratios."""
    session = _int8_session(model, photos[:CALIBRATION_PHOTOS])
    contestants: dict[str, Run] = {
        "merged": _simulated(program, words, image),
        "merged_one_thread": _simulated(program, words, image, threads=1),
        "command_by_command": _simulated(program, words, image, merge=False),
        "onnxruntime_int8": lambda: session.run(None, {"input": image})[0],
        "tvm_llvm": _stock_tvm(mod, image),
    }
    results = {name: run() for name, run in contestants.items()}
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for name, run in contestants.items():
            begin = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - begin) * 1e3)
    median = {name: float(np.median(values)) for name, values in times.items()}
    differing = int((results["merged"] != results["command_by_command"]).sum())
    return {
        **{f"{name}_ms": value for name, value in median.items()},
        "merged_over_onnxruntime": median["merged"] / median["onnxruntime_int8"],
        "merged_over_tvm_llvm": median["merged"] / median["tvm_llvm"],
        "command_by_command_over_merged": median["command_by_command"] / median["merged"],
        "values_differing": differing,
    }


class _Photos(quantization.CalibrationDataReader):
    """Hands photographs to onnxruntime's calibration."""

    def __init__(self, photos: Sequence[dict[str, Array]]) -> None:
        self._photos = iter(photos)

    def get_next(self) -> dict[str, Array] | None:
        return next(self._photos, None)


def _int8_session(
    model: onnx.ModelProto, photos: Sequence[dict[str, Array]]
) -> onnxruntime.InferenceSession:
    """Return onnxruntime's own static quantisation of the model: QDQ, s8s8, per channel."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "int8.onnx")]
        onnx.save(model, paths[0])
        quantization.quantize_static(
            *paths,
            _Photos(photos),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )
        return onnxruntime.InferenceSession(paths[1])


def _measured_apart(program: NpuProgram, words: Words, image: Array) -> float:
    """Return the peak memory, in MB, of a process that runs one photograph and nothing else."""
    flat = np.ascontiguousarray(image).reshape(-1).view(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.pickle"
        path.write_bytes(pickle.dumps((words, program.constants, program.arena_bytes, flat, NPU)))
        command = [sys.executable, "-c", _ALONE, str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return float(done.stdout)


def _print_layers(program: NpuProgram, words: Words, image: Array) -> None:
    """Print the time of each kind of layer on one thread."""
    machine, logits = Machine(load(NPU)), np.zeros(1000, np.float32)
    memories = machine.memories(_regions(program, image, logits))
    merged = machine.plan(words).program
    sums: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(4))
    with one_thread():
        for number, bound in merged.bind(b"", memories).items():
            spent = min(_time(bound, memories) for _ in range(7))
            layer = merged.actions[number]
            assert isinstance(layer, Layer)
            results = int(np.prod(layer.shape))
            sums[_kind(layer)] += 1, results, results * _taps(layer), spent
    table = [
        [kind, int(count), int(results), taps / 1e6, spent * 1e3, spent / results * 1e9]
        for kind, (count, results, taps, spent) in sums.items()
    ]
    print_table(table, ["kind", "layers", "results", "million taps", "ms", "ns per result"])


def _time(layer: BoundLayer, memories: Sequence[Any]) -> float:
    begin = time.perf_counter()
    for rows in layer.blocks:
        layer.run(memories, rows)
    return time.perf_counter() - begin


def _kind(layer: Layer) -> str:
    kernel, owner = layer.tensors[0].window.kernel, layer.tensors[0].owner
    size = f" {kernel[0]} x {kernel[1]}" if owner.row.queue == Queue.MX else ""
    return owner.row.mnemonic + size


def _taps(layer: Layer) -> int:
    """Return how many products or elements one result takes."""
    window, channels = layer.tensors[0].window, layer.tensors[0].source.shape[2]
    return (
        window.kernel[0]
        * window.kernel[1]
        * (channels if "ic" in layer.tensors[0].owner.fields else 1)
    )


if __name__ == "__main__":
    raise SystemExit(main())
