"""What tuning found, as values and as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codegen.schedule import Schedule
from tvm_vnpu.report.table import Cell, html_table, text_table
from tvm_vnpu.tuner.task import Task

_HEADERS = ("operator", "times", "default cycles", "best cycles", "gained", "trials", "schedule")


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    """The best schedule of a task beside its default.

    `trials`: how many points were tried, `measured`: how many of them, the default included, no
    log had. `checked`: the best passed verifier and machine. `faults`: why better ones did not.
    """

    task: Task
    default_cycles: int
    schedule: Schedule
    cycles: int
    trials: int
    measured: int
    checked: bool
    faults: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "operator": self.task.key.operator, "workload": self.task.workload,
            "nodes": list(self.task.nodes), "weight": self.task.weight,
            "default_cycles": self.default_cycles, "cycles": self.cycles,
            "schedule": self.schedule.to_dict(), "trials": self.trials, "measured": self.measured,
            "checked": self.checked, "faults": list(self.faults),
        }  # fmt: skip

    def row(self) -> list[Cell]:
        """Return the result as a row for people."""
        gained = f"{(1 - self.cycles / self.default_cycles) * 100:.1f} %"
        schedule = self.schedule.describe() + ("" if self.checked else " (not checked yet)")
        return [
            self.task.workload, self.task.weight, self.default_cycles, self.cycles, gained,
            self.trials, schedule,
        ]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Tuned:
    """A run of the tuner. Totals count each task as often as the model runs it."""

    tuner: str
    seed: int
    npu: str
    results: tuple[TaskResult, ...]

    @property
    def default_cycles(self) -> int:
        """Return the sum over tasks before tuning."""
        return sum(result.task.weight * result.default_cycles for result in self.results)

    @property
    def cycles(self) -> int:
        """Return the sum over tasks after tuning."""
        return sum(result.task.weight * result.cycles for result in self.results)

    @property
    def trials(self) -> int:
        """Return how many points were tried."""
        return sum(result.trials for result in self.results)

    @property
    def measured(self) -> int:
        """Return how many measurements no log had."""
        return sum(result.measured for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "tuner": self.tuner, "seed": self.seed, "npu": self.npu,
            "default_cycles": self.default_cycles, "cycles": self.cycles, "trials": self.trials,
            "measured": self.measured, "tasks": [result.to_dict() for result in self.results],
        }  # fmt: skip

    def table(self) -> tuple[Sequence[str], list[list[Cell]]]:
        """Return headers and rows for people."""
        return _HEADERS, [result.row() for result in self.results]

    def __str__(self) -> str:
        """Return the run as text."""
        return f"{text_table(*self.table())}\n\n{self.summary()}"

    def _repr_html_(self) -> str:
        """Return the run as HTML for notebooks."""
        return f"{html_table(*self.table())}<p>{self.summary()}</p>"

    def summary(self) -> str:
        """Return the totals in one line."""
        if not self.results:
            return "nothing was tuned"
        ratio = self.default_cycles / self.cycles
        return (
            f"{self.default_cycles:,} cycles by default, {self.cycles:,} tuned ({ratio:.3f} times "
            f"as fast) on {self.npu}; {self.trials:,} trials, {self.measured:,} measured"
        )
