"""What each knob is worth: the best schedule without it over the best schedule.

    python -m benchmarks.knobs [--quick] [--npu NAME ...] [--layers TEXT ...] [--processes N]

Needs the optima that `benchmarks.optimum` has recorded. For a knob, layer after layer is searched
again in the part of the space that has the knob's plain value only, preset after preset, until one
is found whose optimum the knob moves by 0.5 %: the lower bound of that part, or the best of it, is
so far above. Layers whose best schedule loses most with the plain value come first. A layer is done
with where a schedule within 0.5 % of its optimum turns up; after --limit measurements its question
stays open. What unrolling gains is measured on random schedules of every layer, too: most of them
are far from the best. `--quick` takes one layer of vnpu-256.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks.harness import argument_parser, print_table, results_folder, write_result
from benchmarks.optimum import Layer, is_chosen, layers_of
from benchmarks.tuner_layers import optimum_rows
from codegen.measure import cycles_of
from codegen.ops.base import Operator
from codegen.schedule import Schedule, ScheduleError, Value
from codegen.space import Knob
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.optimum import Optimum, find_optimum

WORTH = 0.005
PRESETS = ("vnpu-256", "vnpu-256-lowbw", "vnpu-1024", "vnpu-4096", "vnpu-64")
QUICK, LIMIT = "gap", 600
SEED, DRAWS = 11, 40
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
class Subjects:
    """The layers to ask: `npus` by preset, `texts` parts of names (none: all)."""

    npus: tuple[str, ...]
    texts: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A layer with its optimum."""

    layer: Layer
    cycles: int
    schedule: Schedule

    @property
    def enough(self) -> int:
        """Return the cycles from which on a schedule is worse than the optimum by WORTH."""
        return int(self.cycles * (1 + WORTH))


def main() -> int:
    """Search, print and record."""
    arguments = _arguments()
    subjects = Subjects(tuple(arguments.npu), tuple(arguments.layers), arguments.limit)
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        rows = _told(pool.imap(partial(answered, subjects), WITHOUT))
        unrolled = _told(pool.imap(partial(gain_of_unrolling, subjects), subjects.npus))
    configuration = {
        "worth": WORTH, "limit": arguments.limit, "seed": SEED, "draws": DRAWS,
        "code": code_version(),
    }  # fmt: skip
    figures = {"knobs": rows, "unrolling": unrolled}
    write_result("knobs", figures, configuration, results_folder(arguments))
    for table in figures.values():
        print_table([list(row.values()) for row in table], list(table[0]))
        print()
    return 0


def _told(rows: Iterable[Row]) -> list[Row]:
    """Return rows, each reported as it comes."""
    found = []
    for row in rows:
        print(f"{row}", file=sys.stderr, flush=True)
        found.append(row)
    return found


def _arguments() -> argparse.Namespace:
    parser = argument_parser("What each knob of the schedule spaces is worth.")
    parser.add_argument("--npu", nargs="+", default=[], help="presets (default: all)")
    parser.add_argument("--layers", nargs="+", default=[], help="numbers or parts of names")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=int, default=LIMIT, help="measurements a layer")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.layers = arguments.layers or [QUICK]
    arguments.npu = arguments.npu or list(PRESETS[: 1 if arguments.quick else None])
    for name in arguments.npu:
        digest = load(name).digest()
        recorded = [row["layer"] for row in optimum_rows() if row["npu_digest"] == digest]
        if not recorded:
            raise SystemExit(str(_unknown(name)))
        if not any(is_chosen(layer, arguments.layers) for layer in recorded):
            raise SystemExit(f"no layer has {' or '.join(arguments.layers)} in its name")
    return arguments


def _unknown(npu: str) -> VnpuError:
    """Return the error of a preset whose optima are not all recorded."""
    return VnpuError(
        f"the optima of {npu} are not recorded",
        fix=f"run `python -m benchmarks.optimum --npu {npu}`",
    )


@lru_cache
def known_layers(subjects: Subjects, npu: str) -> tuple[Known, ...]:
    """Return the layers to ask on a preset. Raises VnpuError where one's optimum is not known."""
    optima = {(row["npu_digest"], row["operator"]): row for row in optimum_rows()}
    found = []
    for layer in layers_of(load(npu), 0, subjects.limit):
        if is_chosen(layer.name, subjects.texts):
            if layer.subject not in optima:
                raise _unknown(npu)
            row = optima[layer.subject]
            schedule = Schedule.from_dict(json.loads(row["schedule"]))
            found.append(Known(layer, row["optimum_cycles"], schedule))
    return tuple(found)


def answered(subjects: Subjects, without: str) -> Row:
    """Return whether the knob is worth WORTH in any layer, and the most it may be worth in one."""
    asked, still_open, most, where = 0, 0, 1.0, ("-", "-")
    for npu in subjects.npus:
        known = [one for one in known_layers(subjects, npu) if _has(one.layer, without)]
        asked += len(known)
        for one in sorted(known, key=lambda one: -_loss(one, without)):
            best = _best(one, without)
            here = (npu, one.layer.name)
            if best is None:
                return _row(without, "no schedule without", here, math.inf, asked)
            if best.bound > one.enough:
                return _row(without, "yes", here, best.cycles / one.cycles, asked)
            if best.cycles / one.cycles > most:
                most, where = best.cycles / one.cycles, here
            still_open += best.cycles > one.enough
    worth = f"open in {still_open}" if still_open else "no"
    return _row(without, worth, where, most, asked)


def _row(without: str, worth: str, where: tuple[str, str], times: float, asked: int) -> Row:
    most = f"{times:.4f}" if times < math.inf else "-"
    return {"without": without, "worth": worth, "npu": where[0], "layer": where[1],
            "times_at_most": most, "layers": asked}  # fmt: skip


def _has(layer: Layer, without: str) -> bool:
    return len(_values(layer, WITHOUT[without][0])) > 1


def _values(layer: Layer, name: str) -> tuple[Value, ...]:
    """Return the values of a knob, none where the layer does not have it."""
    return next((k.values for k in layer.operator.knobs(layer.npu) if k.name == name), ())


def _loss(one: Known, without: str) -> float:
    """Return what the best schedule's cycles grow to with the knob's plain value; 1 if illegal."""
    layer, knobs = one.layer, narrowed(one.layer.operator, one.layer.npu, without)
    legal = [s for s in _neutral(one.schedule, knobs) if layer.operator.is_legal(s, layer.npu)]
    return min(cycles_of(layer.operator, legal, layer.npu), default=one.cycles) / one.cycles


def _best(one: Known, without: str) -> Optimum | None:
    """Return the best schedule without the knob, or one that is good enough; None if none fits."""
    layer = one.layer
    knobs = narrowed(layer.operator, layer.npu, without)
    starts = [one.schedule, *_neutral(one.schedule, knobs)]
    try:
        return find_optimum(layer.operator, layer.npu, layer.limit, knobs, starts, one.enough)
    except ScheduleError:
        return None


def gain_of_unrolling(subjects: Subjects, npu: str) -> Row:
    """Return what the best factor gains over no unrolling, on random schedules of every layer."""
    gains: list[tuple[float, str]] = []
    for one in known_layers(subjects, npu):
        layer, rng = one.layer, np.random.default_rng(SEED)
        factors = _values(layer, "unroll")
        if len(factors) > 1:
            space = layer.operator.space(layer.npu)
            drawn = [space.schedule(space.random(rng)) for _ in range(DRAWS)]
            by_factor = [
                cycles_of(layer.operator, [replace(s, unroll=k) for s in drawn], layer.npu)  # type: ignore[arg-type]
                for k in factors
            ]
            gains += [(rolled / min(rolled, *more) - 1, layer.name)
                      for rolled, *more in zip(*by_factor, strict=True)]  # fmt: skip
    most, where = max(gains)
    return {
        "npu": npu, "random_schedules": len(gains),
        "gain_0.5_percent_or_more": f"{np.mean([gain >= WORTH for gain, _ in gains]):.1%}",
        "mean_gain": f"{np.mean([gain for gain, _ in gains]):.2%}",
        "largest_gain": f"{most:.1%}", "layer": where,
    }  # fmt: skip


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
