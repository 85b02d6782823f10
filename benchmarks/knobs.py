"""What each knob is worth: the best schedule without it over the best schedule.

    python -m benchmarks.knobs [--quick] [--npu NAME ...] [--layers TEXT ...] [--processes N]

Needs the optima that `benchmarks.optimum` has recorded. For a knob, layer after layer is searched
again in the part of the space that has the knob's plain value only, until one is found whose
optimum the knob moves by 0.5 %: the lower bound of that part, or the best of it, is so far above.
A layer is done with where a schedule within 0.5 % of its optimum turns up; after --limit
measurements its question stays open. `--quick` takes one layer of vnpu-256.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.harness import argument_parser, print_table, results_folder, write_result
from benchmarks.optimum import Layer, is_chosen, layers_of
from benchmarks.tuner_layers import optimum_rows
from codegen.ops.base import Operator
from codegen.schedule import Schedule, ScheduleError, Value
from codegen.space import Knob
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.optimum import Optimum, find_optimum

WORTH = 0.005
QUICK, LIMIT = "gap", 600
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
    "second input buffers": ("in_buffers", (1,)),
    "third input buffers": ("in_buffers", (1, 2)),
    "second weight buffers": ("weight_buffers", (1,)),
    "third weight buffers": ("weight_buffers", (1, 2)),
    "second output buffers": ("out_buffers", (1,)),
    "third output buffers": ("out_buffers", (1, 2)),
    "second sum buffers": ("acc_buffers", (1,)),
    "third sum buffers": ("acc_buffers", (1, 2)),
    "prefetch": ("prefetch", (0,)),
    "prefetch of several steps": ("prefetch", (0, 1)),
    "unroll": ("unroll", (1,)),
}
"""What is taken away: a knob, and the values left; none for the value that does not tile."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """A preset, something to do without, and its layers with their optima."""

    without: str
    layers: tuple[tuple[Layer, int, str], ...]


def main() -> int:
    """Search, print and record."""
    arguments = _arguments()
    known = _optima()
    questions = [
        Question(without, tuple((layer, *known[layer.subject]) for layer in layers))
        for name in arguments.npu
        for layers in [_layers(name, arguments)]
        for without in WITHOUT
    ]
    rows = []
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for row in pool.imap(answered, questions):
            rows.append(row)
            print(f"{row}", file=sys.stderr, flush=True)
    configuration = {"worth": WORTH, "limit": arguments.limit, "code": code_version()}
    write_result("knobs", {"knobs": rows}, configuration, results_folder(arguments))
    print_table([list(row.values()) for row in rows], list(rows[0]))
    return 0


def _layers(npu: str, arguments: argparse.Namespace) -> list[Layer]:
    layers = layers_of(load(npu), 0, arguments.limit)
    chosen = [layer for layer in layers if is_chosen(layer, arguments.layers)]
    if not chosen:
        raise SystemExit(f"no layer has {' or '.join(arguments.layers)} in its name")
    return chosen


def _arguments() -> argparse.Namespace:
    parser = argument_parser("What each knob of the schedule spaces is worth.")
    parser.add_argument("--npu", nargs="+", default=["vnpu-256"], help="presets")
    parser.add_argument("--layers", nargs="+", default=[], help="numbers or parts of names")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=int, default=LIMIT, help="measurements a layer")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.layers = arguments.layers or [QUICK]
    return arguments


def _optima() -> dict[tuple[str, str], tuple[int, str]]:
    """Return the optimum and its schedule by (NPU digest, operator key)."""
    return {
        (row["npu_digest"], row["operator"]): (row["optimum_cycles"], row["schedule"])
        for row in optimum_rows()
    }


def answered(question: Question) -> Row:
    """Return whether the knob is worth WORTH in any layer, and the most it may be worth in one."""
    asked, still_open, most, where, worth = 0, 0, 1.0, "-", "no"
    for layer, optimum, schedule in question.layers:
        if not _has(layer, question.without):
            continue
        asked += 1
        enough = int(optimum * (1 + WORTH))
        best = _best(layer, question.without, schedule, enough)
        if best is None:
            worth, where, most = "no schedule without", layer.name, math.inf
            break
        if best.cycles / optimum > most:
            most, where = best.cycles / optimum, layer.name
        if best.bound > enough:
            worth = "yes"
            break
        still_open += best.cycles > enough
    if worth == "no" and still_open:
        worth = f"open in {still_open}"
    times = f"{most:.4f}" if most < math.inf else "-"
    return {"npu": question.layers[0][0].npu.name, "without": question.without, "worth": worth,
            "layers_asked": asked, "times_at_most": times, "layer": where}  # fmt: skip


def _has(layer: Layer, without: str) -> bool:
    knobs = {knob.name: knob for knob in layer.operator.knobs(layer.npu)}
    name = WITHOUT[without][0]
    return name in knobs and len(knobs[name].values) > 1


def _best(layer: Layer, without: str, schedule: str, enough: int) -> Optimum | None:
    """Return the best schedule without the knob, or one that is good enough; None if none fits."""
    knobs = narrowed(layer.operator, layer.npu, without)
    start = Schedule.from_dict(json.loads(schedule))
    starts = [start, *_neutral(start, knobs)]
    try:
        return find_optimum(layer.operator, layer.npu, layer.limit, knobs, starts, enough)
    except ScheduleError:
        return None


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


if __name__ == "__main__":
    raise SystemExit(main())
