"""What a log holds, task by task: the default, the best, and whether it was checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm_vnpu.report.table import Cell, text_table
from tvm_vnpu.tuner.history import History
from tvm_vnpu.tuner.records import TRIAL, Record

_HEADERS = (
    "operator", "npu", "code", "default cycles", "best cycles", "tuner", "trial", "trials", "check",
    "schedule",
)  # fmt: skip
_VERDICTS = {None: "not checked", "": "passed"}


@dataclass(frozen=True, slots=True)
class BestOfTask:
    """The best trial of one key that no check failed, among `trials` different schedules."""

    record: Record
    default_cycles: int | None
    trials: int
    verdict: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        record = self.record
        return {
            "operator": record.key.operator, "workload": record.workload, "npu": record.key.npu,
            "npu_name": record.npu_name, "code": record.key.code,
            "default_cycles": self.default_cycles, "cycles": record.cycles, "tuner": record.tuner,
            "seed": record.seed, "trial": record.trial, "trials": self.trials,
            "check": _VERDICTS.get(self.verdict, self.verdict),
            "schedule": record.schedule.to_dict(),
        }  # fmt: skip

    def row(self) -> list[Cell]:
        """Return the best as a row for people."""
        record = self.record
        return [
            record.workload, record.npu_name, record.key.code, self.default_cycles, record.cycles,
            f"{record.tuner} {record.seed}", record.trial, self.trials,
            _VERDICTS.get(self.verdict, self.verdict), record.schedule.describe(),
        ]  # fmt: skip


def best_of_tasks(records: Sequence[Record]) -> list[BestOfTask]:
    """Return the best of every key of a log, in the log's order; a failed schedule is passed by."""
    history, found = History(records), []
    defaults = {r.key: r.cycles for r in records if r.event == TRIAL and r.trial == 0}
    for key in history.keys:
        trials = history.trials(key)
        kept = [t for t in trials if not history.verdict(key, t.schedule)]
        if kept:
            different = len({trial.schedule for trial in trials})
            verdict = history.verdict(key, kept[0].schedule)
            found.append(BestOfTask(kept[0], defaults.get(key), different, verdict))
    return found


def summary_text(best: Sequence[BestOfTask]) -> str:
    """Return the table for people."""
    if not best:
        return "the log holds no measured trial"
    return text_table(_HEADERS, [entry.row() for entry in best])


def best_records(records: Sequence[Record]) -> list[Record]:
    """Return what a log needs to hold for its best to be applied: best, default and verdict."""
    kept = {(entry.record.key, entry.record.schedule) for entry in best_of_tasks(records)}
    best = {entry.record for entry in best_of_tasks(records)}
    return [
        record
        for record in dict.fromkeys(records)
        if record in best
        or (record.event == TRIAL and record.trial == 0)
        or (record.event != TRIAL and (record.key, record.schedule) in kept)
    ]
