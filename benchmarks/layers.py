"""How near every layer comes to its lower bound, and how long networks take to compile.

    python -m benchmarks.layers [--quick]

Every network gets placeholder ranges, the default heuristic chooses all schedules. A layer's lower
bound is the largest of whole array passes, vector work and compulsory DRAM traffic; it counts from
the end of the layer before. Compile time is import, quantisation and `partition_for_vnpu`, C
compiler included, in a process that has compiled nothing of that shape before. `--quick` takes
vnpu-256 alone. Prints whether the goals hold; does not fail when they do not.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from benchmarks.harness import argument_parser, print_table, results_folder, write_result
from benchmarks.networks import NETWORKS, RESNET18_LAYERS
from examples.efficientnet_lite0.model import onnx_model as efficientnet_lite0
from runtime_sim.npu import load, presets
from tvm_vnpu.artifact.records import region_of
from tvm_vnpu.frontend.compiled_regions import collect_regions
from tvm_vnpu.quantize import quantize_uncalibrated
from tvm_vnpu.relax import from_onnx, partition_for_vnpu
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import make_profile
from tvm_vnpu.report.profile import LayerProfile, Profile
from tvm_vnpu.report.profile_text import short_name

MAIN = "vnpu-256"
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "efficientnet_lite0": efficientnet_lite0,
    **NETWORKS,
}
ON_EVERY_PRESET = ("efficientnet_lite0", "resnet18")
MAX_RATIO, MAX_GEOMEAN, MIN_SHARE, MAX_SECONDS = 1.5, 1.25, 0.8, 20.0
_NUMBERS = {node: number for number, node in RESNET18_LAYERS.items()}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A network on a preset: what it costs, and the seconds it took to compile."""

    network: str
    preset: str
    profile: Profile
    seconds: float

    @property
    def ratios(self) -> list[float]:
        """Return cycles over lower bound of every layer."""
        return [ratio(layer) for layer in self.profile.layers]

    @property
    def geomean(self) -> float:
        """Return the geometric mean of the ratios."""
        return float(np.exp(np.mean(np.log(self.ratios))))


def main() -> int:
    """Compile, time, print and record."""
    arguments = argument_parser("Cycles against lower bounds, compile times.").parse_args()
    chosen = (MAIN,) if arguments.quick else (MAIN, *(p for p in presets() if p != MAIN))
    models = {name: make() for name, make in MODELS.items()}
    runs = [
        compiled(name, models[name], preset)
        for preset in chosen
        for name in MODELS
        if preset == MAIN or name in ON_EVERY_PRESET
    ]
    mine = {run.network: run for run in runs if run.preset == MAIN}
    networks = {name: layer_rows(mine[name].profile.layers) for name in ON_EVERY_PRESET}
    goals, summary = goal_rows(mine, runs), [summary_row(run) for run in runs]
    figures: Row = {
        "goals": goals,
        "networks": summary,
        **{f"{name} on {MAIN}": rows for name, rows in networks.items()},
    }
    configuration = {"ranges": "placeholder", "cpu_cores": os.cpu_count()}
    write_result("layers", figures, configuration, results_folder(arguments))
    for rows in (*networks.values(), summary, goals):
        _print(rows)
    return 0


def compiled(name: str, model: onnx.ModelProto, preset: str) -> Compiled:
    """Compile a network for a preset from ONNX and time its stream."""
    npu = load(preset)
    begin = time.perf_counter()
    module = quantize_uncalibrated(from_onnx(model), npu=npu)
    with collect_regions() as regions:
        partition_for_vnpu(module, npu)
    seconds = time.perf_counter() - begin
    inference = Inference(
        model=name,
        npu=npu,
        rounding="integer",
        calibrated=False,
        regions=[region_of(r.symbol, r.symbol, r.program) for r in regions],
        operators=(),
    )
    return Compiled(name, preset, make_profile(inference), seconds)


def ratio(layer: LayerProfile) -> float:
    """Return a layer's cycles over its lower bound."""
    return layer.cycles / max(layer.lower_bound_cycles, 1)


def layer_rows(layers: Sequence[LayerProfile]) -> list[Row]:
    """Return one row a layer; `number` is C1 to C11 of ResNet-18, where it is one of them."""
    rows = []
    for layer in layers:
        number = next((_NUMBERS[node] for node in layer.nodes if node in _NUMBERS), "")
        rows.append(
            {
                "layer": short_name(layer.nodes) or layer.name,
                "number": number,
                "operator": layer.operator,
                "cycles": layer.cycles,
                "lower_bound_cycles": layer.lower_bound_cycles,
                "ratio": round(ratio(layer), 3),
                "bound": layer.bound,
                "busiest_engine": layer.critical.name,
                "busy_percent": round(layer.critical.busy / layer.cycles * 100, 1),
            }
        )
    if not any(row["number"] for row in rows):
        rows = [{key: value for key, value in row.items() if key != "number"} for row in rows]
    return rows


def summary_row(run: Compiled) -> Row:
    """Return the figures of one network on one preset."""
    layers, profile = run.profile.layers, run.profile
    worst = max(layers, key=ratio)
    bounds = Counter(layer.bound for layer in layers)
    return {
        "network": run.network,
        "npu": run.preset,
        "regions": profile.regions,
        "cycles": profile.cycles,
        "lower_bound_cycles": profile.lower_bound_cycles,
        "geomean_ratio": round(run.geomean, 3),
        "max_ratio": round(ratio(worst), 3),
        "worst_layer": short_name(worst.nodes) or worst.name,
        "bounds": ", ".join(f"{name} {count}" for name, count in bounds.most_common()),
        "array_use_percent": round(profile.utilization * 100, 1),
        "compile_seconds": round(run.seconds, 1),
    }


def goal_rows(mine: dict[str, Compiled], runs: Sequence[Compiled]) -> list[Row]:
    """Return the goals with what was reached."""
    network = mine["efficientnet_lite0"]
    shares = {
        number: 1 / ratio(layer)
        for layer in mine["resnet18"].profile.layers
        for node, number in _NUMBERS.items()
        if node in layer.nodes and number != "C1"
    }
    lowest = min(shares, key=lambda number: shares[number])
    slowest = max(runs, key=lambda run: run.seconds)
    worst = max(network.ratios)
    return [
        _goal(
            f"{MAIN} EfficientNet-Lite0: every layer within {MAX_RATIO} of its bound",
            f"{worst:.3f}", worst <= MAX_RATIO,
        ),
        _goal(
            f"{MAIN} EfficientNet-Lite0: geomean within {MAX_GEOMEAN} of the bounds",
            f"{network.geomean:.3f}", network.geomean <= MAX_GEOMEAN,
        ),
        _goal(
            f"{MAIN} ResNet-18: C2 to C11 at {MIN_SHARE:.0%} of their bounds or more",
            f"{shares[lowest]:.1%} ({lowest})",
            len(shares) == 10 and shares[lowest] >= MIN_SHARE,
        ),
        _goal(
            f"every network compiles within {MAX_SECONDS:.0f} s",
            f"{slowest.seconds:.1f} s ({slowest.network} for {slowest.preset})",
            slowest.seconds <= MAX_SECONDS,
        ),
    ]  # fmt: skip


def _goal(goal: str, reached: str, holds: bool) -> Row:
    return {"goal": goal, "reached": reached, "holds": holds}


def _print(rows: Sequence[Row]) -> None:
    headers = [name.replace("_", " ") for name in rows[0]]
    print_table([list(row.values()) for row in rows], headers)
    print()


if __name__ == "__main__":
    raise SystemExit(main())
