"""The proven best schedule of every layer, and how far the default heuristic is from it.

    python -m benchmarks.optimum [--quick] [--npu NAME ...] [--layers TEXT ...] [--processes N]

Takes every distinct layer (by signature and types) of ResNet-18 and EfficientNet-Lite0. Branch and
bound measures schedules in the order of an admissible lower bound until no bound is below the best
cycles (`tvm_vnpu.tuner.optimum`), or --limit schedules are measured (small spaces are measured
whole where they have to be): what no schedule can go below is then the lowest bound left. A seeded
sample of the whole space, 1 % of it but no more than --sample schedules, is measured too: any below
its own bound or below that of the whole space is a violation, and there must be none. Legal points
are counted where the space is small, else estimated from the same draws. Layers that are done are
kept in build/optimum under the hash of the code, and taken from there when the run is repeated.
`--quick` takes four layers on vnpu-256. Each NPU has a result of its own.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.harness import ROOT, argument_parser, print_table, results_folder, write_result
from benchmarks.networks import RESNET18_LAYERS, resnet18
from benchmarks.tuner_layers import network_tasks
from codegen.bounds import lower_bounds
from codegen.measure import cycles, cycles_of
from codegen.ops.base import Operator, best_schedule
from codegen.schedule import Schedule
from codegen.space import Space
from examples.efficientnet_lite0.model import onnx_model as efficientnet_lite0
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.report.profile_text import short_name
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.optimum import find_optimum
from tvm_vnpu.tuner.task import operator_key

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": resnet18,
    "efficientnet_lite0": efficientnet_lite0,
}
MAIN = "vnpu-256"
QUICK = ("C2", "C5", "C8", "C11")
MAX_GEOMEAN = 1.10
SEED, SMALL, DRAWS, LIMIT = 7, 20_000, 4000, 4000
_NUMBERS = {node: number for number, node in RESNET18_LAYERS.items()}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A distinct layer of a network on an NPU."""

    network: str
    name: str
    operator: Operator
    npu: NpuConfig
    sample: int
    limit: int

    @property
    def subject(self) -> tuple[str, str]:
        """Return the digest of the NPU and the key of the operator."""
        return self.npu.digest(), operator_key(self.operator)

    @property
    def key(self) -> str:
        """Return what the result is kept under."""
        return f"{' '.join(self.subject)} {self.sample} {self.limit}"


def main() -> int:
    """Search, print, record; the exit code says whether there are violations."""
    arguments = _arguments()
    results = [_one_npu(name, arguments) for name in arguments.npu]
    return int(any(row["violations"] for rows in results for row in rows))


def _one_npu(name: str, arguments: argparse.Namespace) -> list[Row]:
    """Search the layers on one NPU, print and record."""
    layers = layers_of(load(name), arguments.sample, arguments.limit)
    layers = [layer for layer in layers if is_chosen(layer.name, arguments.layers)]
    store = Store(ROOT / "build" / "optimum" / f"{code_version()}.jsonl")
    for layer, row in solve(layers, store, arguments.processes):
        found = f"{row['optimum_cycles']:,} cycles, {row['seconds']} s"
        print(f"{name} {layer.name}: {found}", file=sys.stderr, flush=True)
    rows = [store.rows[layer.key] | _names(layer) for layer in layers]
    figures: Row = {"summary": [summary(name, rows)], "layers": rows}
    configuration = {
        "seed": SEED, "largest_sample": arguments.sample, "limit": arguments.limit,
        "code": code_version(),
    }  # fmt: skip
    suffix = "" if name == MAIN else f"_{name}"
    write_result(f"optimum{suffix}", figures, configuration, results_folder(arguments))
    for table in figures.values():
        print_table([list(row.values()) for row in table], list(table[0]))
        print()
    return rows


def _arguments() -> argparse.Namespace:
    parser = argument_parser("The proven optimum of every layer's schedule space.")
    parser.add_argument("--npu", nargs="+", default=[MAIN], help="presets")
    parser.add_argument("--layers", nargs="+", default=[], help="numbers or parts of names")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--sample", type=int, default=500, help="schedules measured as a check")
    parser.add_argument("--limit", type=int, default=LIMIT, help="measurements a layer")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.layers = arguments.layers or list(QUICK)
    return arguments


def is_chosen(name: str, wanted: Sequence[str]) -> bool:
    """Return whether a layer's name has one of the numbers or texts; all have where there are
    none.
    """
    number, *texts = name.split(" ")
    return not wanted or any(text == number or text in texts for text in wanted)


def layers_of(npu: NpuConfig, sample: int, limit: int = LIMIT) -> list[Layer]:
    """Return the distinct layers of both networks for an NPU."""
    found: dict[str, Layer] = {}
    for network, make in MODELS.items():
        for task in network_tasks(make, npu.name):
            whole = SMALL if task.operator.space(npu).size <= SMALL else 0
            most = max(limit, whole)
            layer = Layer(network, _name(task.operator), task.operator, npu, sample, most)
            found.setdefault(layer.key, layer)
    return list(found.values())


def _name(operator: Operator) -> str:
    """Return a layer's number, where it is one of C1 to C11, and its node."""
    number = next((_NUMBERS[node] for node in operator.source_names if node in _NUMBERS), "-")
    return f"{number} {short_name(operator.source_names) or operator.name}"


def _names(layer: Layer) -> Row:
    return {"network": layer.network, "layer": layer.name, "npu": layer.npu.name}


class Store:
    """Rows on disk, one a line; a line that is cut short is ignored."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[str, Row] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            self.rows[entry["key"]] = entry["row"]

    def add(self, key: str, row: Row) -> None:
        """Keep a row."""
        self.rows[key] = row
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "row": row}) + "\n")


def solve(layers: Sequence[Layer], store: Store, processes: int) -> Iterator[tuple[Layer, Row]]:
    """Yield every layer with its row: those on disk first, then the others as they are done."""
    todo = []
    for layer in layers:
        if layer.key in store.rows:
            yield layer, store.rows[layer.key]
        else:
            todo.append(layer)
    with multiprocessing.get_context("spawn").Pool(min(processes, len(todo) or 1)) as pool:
        for index, row in pool.imap_unordered(_solve_numbered, list(enumerate(todo))):
            store.add(todo[index].key, row)
            yield todo[index], row


def _solve_numbered(numbered: tuple[int, Layer]) -> tuple[int, Row]:
    return numbered[0], solved(numbered[1])


def solved(layer: Layer) -> Row:
    """Search one layer and check the search."""
    begin = time.process_time()
    operator, npu = layer.operator, layer.npu
    best = find_optimum(operator, npu, layer.limit)
    default = cycles(operator, best_schedule(operator, npu), npu)
    space = operator.space(npu)
    points, estimated = count_points(space)
    count = min(layer.sample, ceil(0.01 * max(0, points - best.measured)))
    sampled, below_bound, below_least = check(space, count, best.bound)
    return {
        **_names(layer),
        "kind": operator.kind,
        "points": points,
        "estimated": estimated,
        "families": best.families,
        "measured": best.measured,
        "sampled": sampled,
        "violations": below_bound + below_least,
        "proven": best.proven,
        "optimum_cycles": best.cycles,
        "bound": best.bound,
        "default_cycles": default,
        "optimum_over_bound": round(best.cycles / best.bound, 4),
        "default_over_optimum": round(default / best.cycles, 4),
        "seconds": round(time.process_time() - begin, 1),
        "schedule": json.dumps(_knobs(best.schedule)),
        "npu_digest": npu.digest(),
        "operator": operator_key(operator),
    }


def _knobs(schedule: Schedule) -> dict[str, Any]:
    """Return the knobs that differ from Schedule's defaults, as `Schedule.from_dict` takes them."""
    plain = Schedule().to_dict()
    return {name: value for name, value in schedule.to_dict().items() if value != plain[name]}


def count_points(space: Space) -> tuple[int, bool]:
    """Return how many distinct legal points there are, and whether that is an estimate."""
    if space.size <= SMALL:
        return sum(1 for _ in space.points()), False
    rng = np.random.default_rng(SEED)
    sizes = [len(knob.values) for knob in space.knobs]
    drawn = (tuple(rng.integers(0, sizes).tolist()) for _ in range(DRAWS))
    fixed = sum(space.is_legal(p) and space.point_of(space.schedule(p)) == p for p in drawn)
    return round(space.size * fixed / DRAWS), True


def check(space: Space, count: int, least: int) -> tuple[int, int, int]:
    """Measure random points; return how many, and how many are below their bound and `least`."""
    rng = np.random.default_rng(SEED)
    draws = (space.schedule(space.random(rng)) for _ in range(count))
    schedules = list(dict.fromkeys(draws))
    bounds = lower_bounds(space.operator, schedules, space.npu)
    below_bound = below_least = 0
    pairs = iter(zip(schedules, bounds.tolist(), strict=True))
    while part := list(islice(pairs, 64)):
        found = cycles_of(space.operator, [schedule for schedule, _ in part], space.npu)
        below_least += sum(value < least for value in found)
        below_bound += sum(value < bound for value, (_, bound) in zip(found, part, strict=True))
    return len(schedules), below_bound, below_least


def summary(npu: str, rows: Sequence[Row]) -> Row:
    """Return the figures of all layers on one NPU."""
    mine = [row for row in rows if row["npu"] == npu]
    worst = max(mine, key=lambda row: row["default_over_optimum"])
    geomean = _geomean(row["default_over_optimum"] for row in mine)
    return {
        "npu": npu,
        "layers": len(mine),
        "proven": sum(row["proven"] for row in mine),
        "optimum_over_bound_geomean": _geomean(row["optimum_over_bound"] for row in mine),
        "optimum_over_bound_max": max(row["optimum_over_bound"] for row in mine),
        "measured": sum(row["measured"] for row in mine),
        "sampled": sum(row["sampled"] for row in mine),
        "violations": sum(row["violations"] for row in mine),
        "smallest_convolution_space": min(
            (row["points"] for row in mine if row["kind"] in ("conv2d", "depthwise")), default=0
        ),
        "default_geomean": geomean,
        "holds": geomean <= MAX_GEOMEAN,
        "worst": f"{worst['layer']} {worst['default_over_optimum']:.4f}",
        "processor_seconds": round(sum(row["seconds"] for row in mine), 1),
    }


def _geomean(values: Iterable[float]) -> float:
    return round(float(np.exp(np.mean(np.log(list(values))))), 4)


if __name__ == "__main__":
    raise SystemExit(main())
