"""How close the tuner comes to the optimum, against random and genetic search, and what it costs.

    python -m benchmarks.tuner [--quick] [--npu NAME] [--seeds N] [--trials N]
        [--tuners NAME ...] [--networks NAME ...]

Every distinct layer of ResNet-18 and EfficientNet-Lite0 is tuned by each tuner with each seed. A
gap is the best of a run's own trials over the best schedule that `benchmarks.optimum` or any run
here found; `proven_share` is the lower bound of the whole space over that best. The log and what
each run took lie in the build folder: a benchmark that is stopped goes on. `--quick` takes four
layers and one seed. Prints whether the goals hold; does not fail when they do not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    QUICK_RESULTS,
    argument_parser,
    print_table,
    results_folder,
    write_result,
)
from benchmarks.networks import RESNET18_LAYERS, resnet18
from benchmarks.tuner_layers import network_cycles, network_tasks, optimum_rows
from examples.efficientnet_lite0.model import onnx_model as efficientnet_lite0
from tvm_vnpu.tuner import InProcess, Task, Tuned, from_history, read_log, tune_tasks
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.processes import Processes
from tvm_vnpu.tuner.task import TaskKey, default_schedule
from tvm_vnpu.worker_processes import cores

NETWORKS = {"resnet18": resnet18, "efficientnet_lite0": efficientnet_lite0}
TUNERS = ("xgb", "ga", "random")
MAIN = "vnpu-256"
MAX_DEFAULT_GAP, MAX_GAP, MIN_SHARE, MIN_RATE = 0.10, 0.02, 0.90, 200.0
MAX_SECONDS, MAX_OPEN = 5, 0.02
_RATE_SCHEDULES = 300
_QUICK_LAYERS = {"resnet18": ("C2", "C8"), "efficientnet_lite0": ()}
_QUICK_COUNT = 2
Row = dict[str, Any]
Best = Mapping[tuple[str, int, TaskKey], int]
"""The best of a run's own trials, by tuner, seed and task."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A network's tasks with the names they go by, and what tuning them took."""

    network: str
    tasks: list[Task]
    names: list[str]


def main() -> int:
    """Tune, compare, print and record."""
    arguments = _arguments()
    seeds = 1 if arguments.quick else arguments.seeds
    subjects = [_subject(name, arguments.npu, arguments.quick) for name in arguments.networks]
    folder = QUICK_RESULTS / ("tuner-quick" if arguments.quick else "tuner")
    folder.mkdir(parents=True, exist_ok=True)
    log = str(folder / f"{arguments.npu}.jsonl")
    done = Runs(folder / f"{arguments.npu}-{code_version()}.jsonl")
    runs: list[Row] = []
    for subject in subjects:
        for tuner in arguments.tuners:
            for seed in range(seeds):
                runs.append(done.row(subject, tuner, seed, arguments.trials, log))
                print(f"{runs[-1]}", flush=True)
    best = _best(log, arguments.trials)
    layers = [row for subject in subjects for row in _layer_rows(subject, best, log)]
    figures: Row = {
        "goals": goal_rows(layers, _rate(arguments.npu), default_seconds(arguments.npu)),
        "gaps": gap_rows(layers),
        "networks": [
            _network_row(subject, runs, arguments.npu, log)
            for subject in subjects
            if "xgb" in arguments.tuners
        ],
        "runs": runs,
        "layers": layers,
    }
    configuration = {
        "npu": arguments.npu, "trials": arguments.trials, "seeds": seeds,
        "cpu_cores": os.cpu_count(), "layers": len(layers),
    }  # fmt: skip
    suffix = "" if arguments.npu == MAIN else f"_{arguments.npu}"
    write_result(f"tuner{suffix}", figures, configuration, results_folder(arguments))
    for name in ("layers", "gaps", "networks", "goals"):
        if figures[name]:
            _print(figures[name])
    return 0


def _arguments() -> argparse.Namespace:
    parser = argument_parser("The tuner against the optimum, random and genetic search.")
    parser.add_argument("--npu", default=MAIN, help=f"a preset (default: {MAIN})")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each tuner (default: 5)")
    parser.add_argument("--trials", type=int, default=64, help="points a layer (default: 64)")
    parser.add_argument("--tuners", nargs="+", default=list(TUNERS), help="xgb and others")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), help="networks to tune")
    return parser.parse_args()


def _subject(network: str, npu: str, quick: bool) -> Subject:
    tasks = network_tasks(NETWORKS[network], npu)
    names = [_name(task) for task in tasks]
    kept = list(range(len(tasks)))
    if quick:
        wanted = _QUICK_LAYERS[network]
        kept = [i for i in kept if names[i] in wanted] or [
            i for i in kept if tasks[i].operator.kind in ("conv2d", "depthwise")
        ][1 : 1 + _QUICK_COUNT]
    return Subject(network, [tasks[i] for i in kept], [names[i] for i in kept])


def _name(task: Task) -> str:
    """Return C1 to C11 for the convolutions of ResNet-18, else the first node's name."""
    numbers = {node: number for number, node in RESNET18_LAYERS.items()}
    nodes = [part for node in task.nodes for part in node.split("+")]
    return next((numbers[node] for node in nodes if node in numbers), nodes[0])


class Runs:
    """What finished runs took, kept on disk: repeating one from the log takes no time."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self._rows = {self._key(row): row for row in map(json.loads, lines)}

    def row(self, subject: Subject, tuner: str, seed: int, trials: int, log: str) -> Row:
        """Return what a run took, after running it where that is not known."""
        key = subject.network, tuner, seed, trials * len(subject.tasks)
        if key not in self._rows:
            row = _run(subject, tuner, seed, trials, log)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            self._rows[key] = row
        return self._rows[key]

    @staticmethod
    def _key(row: Row) -> tuple[str, str, int, int]:
        return row["network"], row["tuner"], row["seed"], row["asked"]


def _run(subject: Subject, tuner: str, seed: int, trials: int, log: str) -> Row:
    """Tune a network's tasks and return what it took."""
    begin = time.perf_counter()
    with Processes() if cores() > 1 else InProcess() as measurer:
        tuned: Tuned = tune_tasks(subject.tasks, tuner, trials, log, seed=seed, measure=measurer)
    seconds = time.perf_counter() - begin
    return {
        "network": subject.network,
        "tuner": tuner,
        "seed": seed,
        "cycles_before": tuned.default_cycles,
        "cycles_after": tuned.cycles,
        "times_as_fast": round(tuned.default_cycles / tuned.cycles, 4),
        "asked": trials * len(subject.tasks),
        "trials": tuned.trials,
        "measured": tuned.measured,
        "seconds": round(seconds, 1),
        "milliseconds_per_trial": round(1000 * seconds / max(tuned.trials, 1), 2),
    }


def _best(log: str, trials: int) -> Best:
    """Return the best of each run's own trials; the default counts only where a run tried it."""
    found: dict[tuple[str, int, TaskKey], int] = {}
    for record in read_log(log):
        if record.event == "trial" and 0 < record.trial <= trials and record.cycles is not None:
            run = record.tuner, record.seed, record.key
            found[run] = min(found.get(run, record.cycles), record.cycles)
    return found


def _layer_rows(subject: Subject, best: Best, log: str) -> list[Row]:
    """Return one row a layer: bounds, default, optimum, and the mean gap of each tuner."""
    defaults = {r.key: r.cycles for r in read_log(log) if r.event == "trial" and r.trial == 0}
    optima = {(row["npu_digest"], row["operator"]): row for row in optimum_rows()}
    rows = []
    for name, task in zip(subject.names, subject.tasks):
        runs: dict[str, list[int]] = defaultdict(list)
        for (tuner, _, key), cycles in best.items():
            if key == task.key:
                runs[tuner].append(cycles)
        default = int(defaults[task.key] or 0)
        known = optima.get((task.key.npu, task.key.operator))
        seen = min(default, *(cycles for found in runs.values() for cycles in found))
        target = min(known["optimum_cycles"], seen) if known else seen
        work = task.operator.work(task.npu)
        bound, memory = work.cycles(task.npu), sum(m.bytes_per_cycle for m in task.npu.memories)
        row: Row = {
            "network": subject.network, "layer": name, "times": task.weight,
            "operator": task.operator.kind, "lower_bound_cycles": round(bound),
            "array_cycles": work.matrix_cycles, "memory_cycles": round(work.dram_bytes / memory),
            "default_cycles": default, "optimum_cycles": target,
            "optimum_over_bound": round(target / known["bound"], 4) if known else None,
            "default_gap_percent": _gap(default, target),
        }  # fmt: skip
        for tuner in runs:
            gaps = [cycles / target for cycles in runs[tuner]]
            row[f"{tuner}_gap_percent"] = round((_geomean(gaps) - 1) * 100, 3)
        tuned = best.get(("xgb", 0, task.key), default)
        row["tuned_share_of_bound"] = round(bound / tuned, 4)
        row["worst_seed_share_of_bound"] = round(bound / max(runs["xgb"], default=default), 4)
        rows.append(row)
    return rows


def _network_row(subject: Subject, runs: Sequence[Row], npu: str, log: str) -> Row:
    """Return a network's cycles as one program, before and after tuning, and the time it took."""
    mine = [run for run in runs if (run["network"], run["tuner"]) == (subject.network, "xgb")]
    records = [record for record in read_log(log) if record.tuner == "xgb" and record.seed == 0]
    before, after = network_cycles(NETWORKS[subject.network], npu, from_history(records))
    return {
        "network": subject.network,
        "layers_tuned": len(subject.tasks),
        "cycles_before": before,
        "cycles_after": after,
        "times_as_fast": round(before / after, 4),
        "xgb_seconds": round(sum(run["seconds"] for run in mine) / len(mine), 1),
    }


def gap_rows(layers: Sequence[Row]) -> list[Row]:
    """Return the geometric mean gap of the defaults and of each tuner, by network and over all."""
    networks = [*dict.fromkeys(row["network"] for row in layers), "all"]
    rows = []
    for network in networks:
        mine = [row for row in layers if network in ("all", row["network"])]
        row: Row = {"network": network, "layers": len(mine)}
        for who in ("default", *TUNERS):
            if f"{who}_gap_percent" not in mine[0]:
                continue
            gaps = [1 + layer[f"{who}_gap_percent"] / 100 for layer in mine]
            row[f"{who}_geomean_gap_percent"] = round((_geomean(gaps) - 1) * 100, 3)
            row[f"{who}_max_gap_percent"] = round((max(gaps) - 1) * 100, 2)
        rows.append(row)
    return rows


def goal_rows(layers: Sequence[Row], rate: float, seconds: float) -> list[Row]:
    """Return the goals with what was reached."""
    total = gap_rows(layers)[-1]
    default, xgb = (total[f"{who}_geomean_gap_percent"] / 100 for who in ("default", "xgb"))
    numbered = [row for row in layers if row["layer"] in RESNET18_LAYERS and row["layer"] != "C1"]
    shares = [_lowest(numbered, f"{which}_share_of_bound") for which in ("tuned", "worst_seed")]
    bounds = [row["optimum_over_bound"] for row in layers]
    worst = max((bound for bound in bounds if bound), default=math.inf)
    proven = f"{bounds.count(1.0)} of {len(bounds)} proven, others within {worst - 1:.1%}"
    return [
        _goal(f"optimum proven, or known to within {MAX_OPEN:.0%}",
              proven, None not in bounds and worst <= 1 + MAX_OPEN),
        _goal(f"default heuristic within {MAX_DEFAULT_GAP:.0%} of the optimum, geomean",
              f"{default:.2%}", default <= MAX_DEFAULT_GAP),
        _goal(f"xgb within {MAX_GAP:.0%} of the optimum, geomean", f"{xgb:.2%}", xgb <= MAX_GAP),
        *(_goal(f"ResNet-18 C2 to C11, tuned {how}, at {MIN_SHARE:.0%} of the lower bound or more",
                f"{share:.1%} ({layer})", share >= MIN_SHARE)
          for how, (share, layer) in zip(("with seed 0", "with every seed"), shares)),
        _goal(f"{MIN_RATE:.0f} measurements a second on one core (56x56x64 -> 64, 3x3)",
              f"{rate:.0f}", rate >= MIN_RATE),
        _goal(f"default schedules of EfficientNet-Lite0 in {MAX_SECONDS} s of one core",
              f"{seconds:.1f} s", seconds <= MAX_SECONDS),
    ]  # fmt: skip


def _lowest(rows: Sequence[Row], column: str) -> tuple[float, str]:
    """Return the lowest figure of a column, and whose it is."""
    return min(((row[column], row["layer"]) for row in rows), default=(0.0, "none measured"))


def _rate(npu: str) -> float:
    """Return measurements a second of processor time of C2, over random points."""
    task = next(task for task in network_tasks(resnet18, npu) if _name(task) == "C2")
    space, rng = task.operator.space(task.npu), np.random.default_rng(0)
    schedules = [space.schedule(space.random(rng)) for _ in range(_RATE_SCHEDULES)]
    list(InProcess().measure(task, [default_schedule(task)]))
    begin = time.process_time()
    list(InProcess().measure(task, schedules))
    return len(schedules) / (time.process_time() - begin)


def default_seconds(npu: str) -> float:
    """Return the processor time of choosing the default schedule of every layer, from nothing."""
    tasks = network_tasks(efficientnet_lite0, npu)
    for module in [module for name, module in sys.modules.items() if name.startswith("codegen")]:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    begin = time.process_time()
    for task in tasks:
        default_schedule(task)
    return time.process_time() - begin


def _gap(cycles: int, target: int) -> float:
    return round((cycles / target - 1) * 100, 3)


def _geomean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))


def _goal(goal: str, reached: str, holds: bool) -> Row:
    return {"goal": goal, "reached": reached, "holds": holds}


def _print(rows: Sequence[Row]) -> None:
    print_table([list(row.values()) for row in rows], [name.replace("_", " ") for name in rows[0]])
    print()


if __name__ == "__main__":
    raise SystemExit(main())
