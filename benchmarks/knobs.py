"""What each knob is worth: the best schedule without it over the best schedule.

    python -m benchmarks.knobs [--quick] [--npu NAME ...] [--layers TEXT ...] [--processes N]

Needs the optima that `benchmarks.optimum` has recorded. For every layer and knob the search runs
again in the part of the space that has the knob's plain value only. It ends where a schedule within
0.5 % of the optimum is found: there the knob is worth less than that. `--quick` takes one layer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.harness import ROOT, argument_parser, print_table, results_folder, write_result
from benchmarks.optimum import Layer, Store, is_chosen, layers_of
from benchmarks.tuner_layers import OPTIMA
from codegen.ops.base import Operator
from codegen.schedule import Schedule, ScheduleError, Value
from codegen.space import Knob
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.optimum import find_optimum

WORTH = 0.005
QUICK = "C9"
WITHOUT: Mapping[str, tuple[str, tuple[Value, ...]]] = {
    "column tiles": ("tile_w", ()),
    "channel tiles": ("tile_oc", ()),
    "a smaller first tile": ("first_tile_h", (0,)),
    "depth tiles": ("tile_ic", ()),
    "loads of several tiles": ("load_tiles", (1,)),
    "loads of channel slices": ("load_ic", ("all",)),
    "a ring of input rows": ("halo", ("reload",)),
    "channel_outer": ("order", ("spatial_outer", "depth_outer")),
    "depth_outer": ("order", ("spatial_outer", "channel_outer")),
    "streamed weights": ("weights", ("resident",)),
    "resident weights": ("weights", ("stream",)),
    "packed_taps": ("micro_kernel", ("implicit_gemm", "pixel_stationary")),
    "pixel_stationary": ("micro_kernel", ("implicit_gemm", "packed_taps")),
    "a third input buffer": ("in_buffers", (1, 2)),
    "a second input buffer": ("in_buffers", (1,)),
    "a third weight buffer": ("weight_buffers", (1, 2)),
    "a second weight buffer": ("weight_buffers", (1,)),
    "a third output buffer": ("out_buffers", (1, 2)),
    "a second output buffer": ("out_buffers", (1,)),
    "a third sum buffer": ("acc_buffers", (1, 2)),
    "a second sum buffer": ("acc_buffers", (1,)),
    "prefetch of more than one step": ("prefetch", (0, 1)),
    "prefetch": ("prefetch", (0,)),
    "unroll by 4": ("unroll", (1, 2)),
    "unroll": ("unroll", (1,)),
}
"""What is taken away: a knob, and the values left; none for the value that does not tile."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A layer, something to do without, and the layer's optimum."""

    layer: Layer
    without: str
    optimum: int
    schedule: str

    @property
    def key(self) -> str:
        """Return what the answer is kept under."""
        return f"{self.layer.key} {self.without}"


def main() -> int:
    """Search, print and record."""
    arguments = _arguments()
    known = _optima()
    questions = [
        Question(layer, without, *known[layer.subject])
        for name in arguments.npu
        for layer in layers_of(load(name), 0)
        if is_chosen(layer, arguments.layers)
        for without, (knob, _) in WITHOUT.items()
        if knob in {k.name for k in layer.operator.knobs(layer.npu) if len(k.values) > 1}
    ]
    store = Store(ROOT / "build" / "knobs" / f"{code_version()}.jsonl")
    todo = [question for question in questions if question.key not in store.rows]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for question, row in zip(todo, pool.imap(answered, todo), strict=True):
            store.add(question.key, row)
            print(f"{row}", file=sys.stderr, flush=True)
    rows = [store.rows[question.key] for question in questions]
    figures = {"knobs": _summary(arguments.npu, rows), "layers": [r for r in rows if r["counts"]]}
    configuration = {"worth": WORTH, "code": code_version(), "presets": arguments.npu}
    write_result("knobs", figures, configuration, results_folder(arguments))
    for table in figures.values():
        print_table([list(row.values()) for row in table], list(table[0]))
        print()
    return 0


def _arguments() -> argparse.Namespace:
    parser = argument_parser("What each knob of the schedule spaces is worth.")
    parser.add_argument("--npu", nargs="+", default=["vnpu-256"], help="presets")
    parser.add_argument("--layers", nargs="+", default=[], help="numbers or parts of names")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.layers = arguments.layers or [QUICK]
    return arguments


def _optima() -> dict[tuple[str, str], tuple[int, str]]:
    """Return the optimum and its schedule by (NPU digest, operator key)."""
    rows = json.loads(OPTIMA.read_text(encoding="utf-8"))["figures"]["layers"]
    return {(r["npu_digest"], r["operator"]): (r["optimum_cycles"], r["schedule"]) for r in rows}


def answered(question: Question) -> Row:
    """Return the best cycles without the knob, or ones within WORTH of the optimum."""
    layer, enough = question.layer, int(question.optimum * (1 + WORTH))
    knobs = narrowed(layer.operator, layer.npu, question.without)
    start = Schedule.from_dict(json.loads(question.schedule))
    starts = [start, *_neutral(start, knobs)]
    row = {"npu": layer.npu.name, "layer": layer.name, "network": layer.network,
           "without": question.without, "optimum_cycles": question.optimum}  # fmt: skip
    try:
        best = find_optimum(layer.operator, layer.npu, None, knobs, starts, enough)
    except ScheduleError:
        return {**row, "cycles": None, "times": None, "counts": True}
    counts = best.cycles > enough
    times = round(best.cycles / question.optimum, 4)
    return {**row, "cycles": best.cycles, "times": times, "counts": counts}


def narrowed(operator: Operator, npu: NpuConfig, without: str) -> tuple[Knob, ...]:
    """Return the operator's knobs with fewer values of one of them."""
    name, left = WITHOUT[without]
    found = []
    for knob in operator.knobs(npu):
        if knob.name == name:
            whole = (max(knob.values),) if name.startswith("tile_") else ()
            knob = Knob(name, whole or tuple(value for value in knob.values if value in left))
        found.append(knob)
    return tuple(found)


def _neutral(schedule: Schedule, knobs: Sequence[Knob]) -> list[Schedule]:
    """Return the schedule with a value that each knob has, where its own is not left."""
    lost = {k.name: k.values[-1] for k in knobs if getattr(schedule, k.name) not in k.values}
    return [replace(schedule, **lost)] if lost else []  # type: ignore[arg-type]


def _summary(npus: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    """Return for each NPU and knob in how many layers it counts, and where most."""
    found = []
    for npu in npus:
        for without in WITHOUT:
            mine = [row for row in rows if (row["npu"], row["without"]) == (npu, without)]
            needed = [row for row in mine if row["counts"]]
            worst = max(needed, key=lambda row: row["times"] or float("inf"), default=None)
            found.append(
                {
                    "npu": npu,
                    "without": without,
                    "layers": len(mine),
                    "worth_half_a_percent": len(needed),
                    "no_schedule_without": sum(row["times"] is None for row in needed),
                    "most_in": worst["layer"] if worst else "-",
                    "times_the_optimum": worst["times"] if worst else "-",
                }
            )
    return found


if __name__ == "__main__":
    raise SystemExit(main())
