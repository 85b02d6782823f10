"""All measurements of a run: from its log where they are there, else measured and logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from codegen.measure import cycles
from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from tvm_vnpu.tuner.check import fault_of
from tvm_vnpu.tuner.cost_model import Vector
from tvm_vnpu.tuner.measure import Measurer, Outcome
from tvm_vnpu.tuner.records import CHECK, TRIAL, Log, Record
from tvm_vnpu.tuner.task import Task, TaskKey

Where = tuple[TaskKey, Schedule]


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose trials are recorded: the tuner and its seed."""

    tuner: str
    seed: int

    def draft(self, task: Task, trial: int, schedule: Schedule, features: Vector) -> Record:
        """Return the record of a trial before it is measured."""
        rounded = tuple(float(f"{value:.6g}") for value in features.tolist())
        return Record(
            TRIAL, task.key, task.npu.name, task.workload, self.tuner, self.seed, trial, schedule,
            None, "", rounded,
        )  # fmt: skip


class Ledger:
    """Completes records of trials and checks; `measured` counts what no log had."""

    def __init__(self, known: Sequence[Record], log: Log | None, measurer: Measurer) -> None:
        """Take what a log holds; `log` gets what is new."""
        self._log, self._measurer, self.measured = log, measurer, 0
        self._outcomes: dict[Where, Outcome] = {}
        self._faults: dict[Where, str] = {}
        self._logged = set(known)
        for record in known:
            where = record.key, record.schedule
            if record.event == TRIAL:
                self._outcomes[where] = Outcome(record.cycles, record.error)
            else:
                self._faults[where] = record.error
        self._replayed = frozenset(self._outcomes)

    def complete(self, task: Task, drafts: Sequence[Record]) -> list[Record]:
        """Return the records with their cycles, in order; each is in the log before the next is.

        Where measuring is interrupted, what was measured is in the log.
        """
        done: dict[int, Record] = {}
        new = [i for i, d in enumerate(drafts) if (d.key, d.schedule) not in self._outcomes]
        for index, draft in enumerate(drafts):
            if index not in new:
                done[index] = self._settle(draft, self._outcomes[draft.key, draft.schedule])
        schedules = [drafts[index].schedule for index in new]
        for position, outcome in self._measurer.measure(task, schedules) if new else ():
            draft = drafts[new[position]]
            self._outcomes[draft.key, draft.schedule] = outcome
            self.measured += 1
            done[new[position]] = self._settle(draft, outcome)
        return [done[index] for index in range(len(drafts))]

    def fault(self, task: Task, trial: Record) -> str:
        """Return what a check of a trial's schedule finds, '' for nothing; checked once."""
        where = trial.key, trial.schedule
        if where not in self._faults:
            self._faults[where] = fault_of(task.operator, trial.schedule, task.npu)
            self._append(replace(trial, event=CHECK, error=self._faults[where], features=()))
        return self._faults[where]

    def wrong_cycles(self, task: Task, trial: Record) -> str:
        """Return what is wrong with cycles that come from the log, '' for nothing."""
        if (trial.key, trial.schedule) not in self._replayed:
            return ""
        try:
            found = cycles(task.operator, trial.schedule, task.npu)
        except VnpuError as error:
            return str(error)
        if found == trial.cycles:
            return ""
        return f"the log has {trial.cycles:,} cycles for a schedule that takes {found:,}"

    def _settle(self, draft: Record, outcome: Outcome) -> Record:
        record = replace(draft, cycles=outcome.cycles, error=outcome.error)
        self._append(record)
        return record

    def _append(self, record: Record) -> None:
        if self._log is not None and record not in self._logged:
            self._log.append(record)
        self._logged.add(record)
