"""How many values of drawn QNN graphs differ between the NPU and TVM's own CPU build: none should.

    python -m benchmarks.relay_exactness --graphs 2000 --workers 2

Graphs have one to eight operators, in both layouts and both rounding modes; the oracle is
`relay.build` of the same graph with int64 requantisation. Runs in the environment with TVM 0.19,
and starts itself there when called from another.
"""

from __future__ import annotations

import logging
import multiprocessing
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks import harness
from tests.doors.programs import door

_QUICK, _FULL = 16, 2000
_FIRST_SEED = 1_000_000
"""Far from the seeds of the tests."""


@dataclass(slots=True)
class Tally:
    """What was compared."""

    graphs: int = 0
    values: int = 0
    differing: int = 0
    regions: int = 0
    without_region: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    left_on_cpu: Counter[str] = field(default_factory=Counter)
    roundings: Counter[str] = field(default_factory=Counter)
    seeds_that_differ: list[int] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add another tally to this one."""
        self.graphs += other.graphs
        self.values += other.values
        self.differing += other.differing
        self.regions += other.regions
        self.without_region += other.without_region
        self.operators += other.operators
        self.left_on_cpu += other.left_on_cpu
        self.roundings += other.roundings
        self.seeds_that_differ += other.seeds_that_differ

    def figures(self) -> dict[str, object]:
        """Return the tally as a result's figures."""
        return {
            "graphs": self.graphs,
            "values compared": self.values,
            "values that differ": self.differing,
            "NPU regions": self.regions,
            "graphs without a region": self.without_region,
            "operators drawn": dict(sorted(self.operators.items())),
            "calls left on the CPU": dict(sorted(self.left_on_cpu.items())),
            "rounding": dict(sorted(self.roundings.items())),
        }


def compare(seed: int) -> Tally:
    """Return the comparison of one graph."""
    from tests.relay.qnn_graphs import draw_graph
    from tests.relay.running import exact, on_cpu, run
    from tvm_vnpu.relay import partition_for_vnpu
    from tvm_vnpu.relay.region_names import region_functions
    from tvm_vnpu.relay.rewrite import calls_of, operator_name

    logging.disable(logging.WARNING)
    graph = draw_graph(seed)
    with exact(graph.rounding):
        partitioned = partition_for_vnpu(graph.mod)
        results = run(partitioned, graph.feeds)
        expected = on_cpu(graph.mod, graph.feeds)
    regions = len(region_functions(partitioned))
    left = [operator_name(call) for call in calls_of(partitioned["main"])]
    differing = sum(int((a != b).sum()) for a, b in zip(results, expected, strict=True))
    return Tally(
        1, sum(array.size for array in expected), differing, regions, int(regions == 0),
        Counter(graph.operators), Counter(name for name in left if name),
        Counter([graph.rounding]), [seed] if differing else [],
    )  # fmt: skip


def _tallies(seeds: Sequence[int], workers: int) -> Iterator[Tally]:
    """Yield the comparisons; workers are renewed, since each build leaves code in the process."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(workers, maxtasksperchild=100) as pool:
        yield from pool.imap_unordered(compare, seeds, chunksize=4)


def main() -> None:
    """Compare, print and record."""
    parser = harness.argument_parser("NPU against TVM's CPU build on drawn QNN graphs")
    parser.add_argument("--graphs", type=int, help=f"how many (default: {_FULL}, quick {_QUICK})")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    arguments = parser.parse_args()
    python = harness.ROOT / ".venv-relay" / "bin" / "python"
    if door() != "relay":
        command = [str(python), "-m", "benchmarks.relay_exactness", *sys.argv[1:]]
        raise SystemExit(subprocess.run(command, cwd=harness.ROOT, check=False).returncode)
    count = arguments.graphs or (_QUICK if arguments.quick else _FULL)
    seeds = range(_FIRST_SEED, _FIRST_SEED + count)
    total = Tally()
    for tally in _tallies(seeds, arguments.workers):
        total.add(tally)
        if tally.differing:
            print(f"seed {tally.seeds_that_differ[0]}: {tally.differing} values differ")
        if total.graphs % 100 == 0:
            print(f"{total.graphs} graphs, {total.differing} values differ", flush=True)
    for name, figure in total.figures().items():
        print(f"{name}: {figure}")
    harness.write_result(
        "relay_exactness", total.figures(), {"graphs": count},
        harness.results_folder(arguments),
    )  # fmt: skip
    if total.differing:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
