"""The tuner against AutoTVM's XGBTuner: same spaces, same measurements, same seeds.

    .venv-relay/bin/python -m benchmarks.tuner_autotvm [--quick] [--seeds N] [--trials N]

Runs where TVM 0.19 is installed. AutoTVM gets each knob of a layer's space as a knob of its own and
is driven by hand: `next_batch`, measure, `update`. It cannot leave out points that are not legal;
they are told to it as failures and do NOT count as its trials. It runs twice: as it is shipped (its
model is trained every 64 points), and with the plan size of our batch. Reported per layer: trials
until within 2 % of the optimum (`benchmarks.optimum`, else the best that any run here found), the
mean over seeds, a run that never gets there counting with all its trials; and wall time a trial.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import autotvm, relay, te
from tvm.autotvm.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tvm.autotvm.tuner import XGBTuner

from benchmarks.harness import argument_parser, print_table, results_folder, write_result
from benchmarks.tuner_layers import known_optima, optimum_of
from codegen.measure import cycles as measure_cycles
from codegen.schedule import Schedule
from codegen.space import Space
from tvm_vnpu.tuner import Task, extract_tasks
from tvm_vnpu.tuner.searchers import searcher_class, subject_of

NPU = "vnpu-256"
LAYERS = {
    "C2": (56, 64, 64, 3, 1), "C3": (56, 64, 128, 3, 2), "C4": (56, 64, 128, 1, 2),
    "C5": (28, 128, 128, 3, 1), "C6": (28, 128, 256, 3, 2), "C7": (28, 128, 256, 1, 2),
    "C8": (14, 256, 256, 3, 1), "C9": (14, 256, 512, 3, 2), "C10": (14, 256, 512, 1, 2),
    "C11": (7, 512, 512, 3, 1),
}  # fmt: skip
"""Size, input and output channels, kernel and stride of ResNet-18's convolutions."""
QUICK = ("C10",)
BATCH, SHIPPED_PLAN = 16, 64
WITHIN, MIN_TIMES = 1.02, 2.0
_SPACES: dict[str, Space] = {}
"""The space that AutoTVM's template of a layer reads; templates take plain values."""
Row = dict[str, Any]


@dataclass(slots=True)
class Run:
    """One search: the best cycles after each trial, seconds of the searcher and of measuring."""

    best: list[int] = field(default_factory=list)
    searching: float = 0.0
    measuring: float = 0.0
    illegal: int = 0

    def take(self, cycles: int, seconds: float) -> int:
        """Count a trial and return its cycles."""
        self.best.append(min(cycles, *self.best[-1:]) if self.best else cycles)
        self.measuring += seconds
        return cycles

    def reached(self, target: float) -> int:
        """Return the trial that first came to a target, all of them where none did."""
        found = (trial for trial, cycles in enumerate(self.best, 1) if cycles <= target)
        return next(found, len(self.best))

    def seconds_per_trial(self) -> float:
        """Return seconds a trial."""
        return (self.searching + self.measuring) / len(self.best)


class Measured:
    """Measures a task's schedules, each once: runs share what they find, as with a log."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._known: dict[Schedule, tuple[int, float]] = {}

    def __call__(self, schedule: Schedule) -> tuple[int, float]:
        """Return cycles, and the seconds that measuring took."""
        if schedule not in self._known:
            begin = time.perf_counter()
            cycles = measure_cycles(self._task.operator, schedule, self._task.npu)
            self._known[schedule] = cycles, time.perf_counter() - begin
        return self._known[schedule]


def main() -> int:
    """Search, compare, print and record."""
    parser = argument_parser("The tuner against AutoTVM's XGBTuner.")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--trials", type=int, default=128, help="trials of a run (default: 128)")
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), help="numbers of layers")
    arguments = parser.parse_args()
    seeds, trials = (1, 20) if arguments.quick else (arguments.seeds, arguments.trials)
    layers = [row for name in (QUICK if arguments.quick else arguments.layers)
              for row in layer_rows(name, seeds, trials)]  # fmt: skip
    goals = goal_rows(layers)
    figures = {"goals": goals, "layers": layers}
    configuration = {"npu": NPU, "seeds": seeds, "trials": trials, "cpu_cores": os.cpu_count()}
    write_result("tuner_autotvm", figures, configuration, results_folder(arguments))
    for rows in (layers, goals):
        headers = [name.replace("_", " ") for name in rows[0]]
        print_table([list(row.values()) for row in rows], headers)
        print()
    return 0


def layer_task(name: str) -> Task:
    """Return a layer as a task, with the semantics that the other benchmarks use."""
    size, inputs, outputs, kernel, stride = LAYERS[name]
    weight = np.random.default_rng(0).integers(-127, 128, (kernel, kernel, inputs, outputs), "int8")
    x = relay.var("x", shape=(1, size, size, inputs), dtype="int8")
    sums = relay.qnn.op.conv2d(
        x, relay.const(weight), relay.const(0), relay.const(0), relay.const(0.05),
        relay.const(0.01), kernel_size=(kernel, kernel), channels=outputs,
        strides=(stride, stride), padding=(kernel // 2,) * 4, data_layout="NHWC",
        kernel_layout="HWIO",
    )  # fmt: skip
    sums = relay.nn.bias_add(sums, relay.const(np.zeros(outputs, "int32")), axis=3)
    body = relay.qnn.op.requantize(
        sums, relay.const(0.05 * 0.01), relay.const(0), relay.const(0.3), relay.const(0), axis=3,
        out_dtype="int8",
    )  # fmt: skip
    module = tvm.IRModule.from_expr(relay.Function([x], body))
    tasks = extract_tasks(module, npu=NPU, rounding="integer")
    return next(task for task in tasks if task.operator.kind == "conv2d")


def layer_rows(name: str, seeds: int, trials: int) -> list[Row]:
    """Return a row for each searcher of a layer."""
    task = layer_task(name)
    _SPACES[name] = task.operator.space(task.npu)
    measured = Measured(task)
    runs = {
        "xgb of tvm_vnpu": [ours(task, measured, seed, trials) for seed in range(seeds)],
        "AutoTVM as shipped": [
            theirs(name, measured, seed, trials, SHIPPED_PLAN) for seed in range(seeds)
        ],
        f"AutoTVM, plan {BATCH}": [
            theirs(name, measured, seed, trials, BATCH) for seed in range(seeds)
        ],
    }
    known = optimum_of(known_optima(), task.key)
    target = known or min(run.best[-1] for found in runs.values() for run in found)
    rows = []
    for who, found in runs.items():
        rows.append(
            {
                "layer": name,
                "searcher": who,
                "optimum_cycles": target,
                "optimum": "known" if known else "best seen",
                "trials_to_2_percent": round(
                    float(np.mean([run.reached(target * WITHIN) for run in found])), 1
                ),
                "came_there": f"{sum(run.best[-1] <= target * WITHIN for run in found)} of {seeds}",
                "gap_percent": round(
                    (float(np.mean([run.best[-1] / target for run in found])) - 1) * 100, 3
                ),
                "illegal_points": round(float(np.mean([run.illegal for run in found])), 1),
                "milliseconds_per_trial": round(
                    float(np.mean([run.seconds_per_trial() for run in found])) * 1000, 2
                ),
            }
        )
        print(rows[-1], flush=True)
    return rows


def ours(task: Task, measured: Measured, seed: int, trials: int) -> Run:
    """Return a run of this project's model-guided search."""
    run, begin = Run(), time.perf_counter()
    subject = subject_of(task.operator, task.npu, seed)
    searcher = searcher_class("xgb")(subject)
    while len(run.best) < trials:
        points = searcher.propose(min(BATCH, trials - len(run.best)))
        if not points:
            break
        run.searching += time.perf_counter() - begin
        costs = [run.take(*measured(subject.space.schedule(point))) for point in points]
        begin = time.perf_counter()
        searcher.update(list(zip(points, costs)))
    run.searching += time.perf_counter() - begin
    return run


@autotvm.template("vnpu/space")
def _template(name: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """Define a layer's knobs; what it computes does not matter, nothing of it is compiled."""
    config = autotvm.get_config()
    for knob in _SPACES[name].knobs:
        config.define_knob(knob.name, list(range(len(knob.values))))
    config.add_flop(1)
    x = te.placeholder((1,), name="x")
    y = te.compute((1,), lambda i: x[i] + 1, name="y")
    return te.create_schedule(y.op), [x, y]


def theirs(name: str, measured: Measured, seed: int, trials: int, plan: int) -> Run:
    """Return a run of AutoTVM's search; only legal points count as trials."""
    random.seed(seed)
    np.random.seed(seed)
    run, begin, space = Run(), time.perf_counter(), _SPACES[name]
    task = autotvm.task.create("vnpu/space", args=(name,), target="llvm")
    tuner = XGBTuner(task, feature_type="knob", plan_size=plan)
    while len(run.best) < trials and tuner.has_next():
        inputs, results = [], []
        for config in tuner.next_batch(BATCH):
            point = tuple(config[knob.name].val for knob in space.knobs)
            run.searching += time.perf_counter() - begin
            inputs.append(MeasureInput(task.target, task, config))
            results.append(_result(run, measured, space, point))
            begin = time.perf_counter()
        tuner.update(inputs, results)
    run.searching += time.perf_counter() - begin
    run.best = run.best[:trials]
    return run


def _result(run: Run, measured: Measured, space: Space, point: tuple[int, ...]) -> MeasureResult:
    """Return what AutoTVM is told of a point: cycles as seconds, or that it is not legal."""
    if not space.is_legal(point):
        run.illegal += 1
        error = ValueError("not legal")
        return MeasureResult((error,), MeasureErrorNo.INSTANTIATION_ERROR, 0.0, 0.0)
    cycles = run.take(*measured(space.schedule(point)))
    return MeasureResult((float(cycles),), MeasureErrorNo.NO_ERROR, 0.0, 0.0)


def goal_rows(layers: Sequence[Row]) -> list[Row]:
    """Return how many times fewer trials and less time ours took, over all layers."""
    sides: dict[str, list[Row]] = {}
    for row in layers:
        sides.setdefault(row["searcher"], []).append(row)
    mine, *others = sides.values()
    rows = []
    for other in others:
        name = other[0]["searcher"]
        fewer = _ratio(other, mine, "trials_to_2_percent")
        faster = _ratio(other, mine, "milliseconds_per_trial")
        rows += [
            {"goal": f"{MIN_TIMES:.0f} times fewer trials to come within 2 % than {name}, geomean",
             "reached": f"{fewer:.2f} times", "holds": fewer >= MIN_TIMES},
            {"goal": f"less wall time a trial than {name}, geomean",
             "reached": f"{faster:.2f} times", "holds": faster > 1},
        ]  # fmt: skip
    return rows


def _ratio(other: Sequence[Row], mine: Sequence[Row], column: str) -> float:
    return float(np.exp(np.mean([np.log(o[column] / m[column]) for o, m in zip(other, mine)])))


if __name__ == "__main__":
    raise SystemExit(main())
