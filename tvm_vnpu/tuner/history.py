"""The best schedules of a log, and applying them to whatever is compiled."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from codegen.graph import NpuGraph
from codegen.ops.base import Operator
from codegen.program import program_operators
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.check import fault_of
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.records import CHECK, TRIAL, PathLike, Record, read_log
from tvm_vnpu.tuner.task import TaskKey, task_key

_log = logging.getLogger(__name__)


class History:
    """Answers with the best schedule of an operator on a configuration; nothing else matches.

    Records of another configuration, ISA or code version have other keys and are never used.
    """

    def __init__(self, records: Iterable[Record]) -> None:
        """Sort the measured trials and keep the verdicts on winners."""
        self._trials: dict[TaskKey, list[Record]] = {}
        self._faults: dict[tuple[TaskKey, Schedule], str] = {}
        for record in records:
            if record.event == CHECK:
                self._faults[record.key, record.schedule] = record.error
            elif record.event == TRIAL and record.cycles is not None:
                self._trials.setdefault(record.key, []).append(record)
        for trials in self._trials.values():
            trials.sort(key=Record.rank)

    @property
    def keys(self) -> tuple[TaskKey, ...]:
        """Return the keys that have a measured trial, in the order of the log."""
        return tuple(self._trials)

    def trials(self, key: TaskKey) -> tuple[Record, ...]:
        """Return the measured trials of a task, best first."""
        return tuple(self._trials.get(key, ()))

    def verdict(self, key: TaskKey, schedule: Schedule) -> str | None:
        """Return the fault that a check found, '' if it found none, None if there was no check."""
        return self._faults.get((key, schedule))

    def best(self, operator: Operator, npu: NpuConfig) -> Schedule | None:
        """Return the best schedule that passes its check; None where the log has none.

        A schedule that no check is recorded for (the tuner was killed) is checked here.
        """
        key = task_key(operator, npu)
        for trial in self.trials(key):
            fault = self._faults.get((key, trial.schedule))
            if fault is None or not operator.is_legal(trial.schedule, npu):
                fault = fault_of(operator, trial.schedule, npu)
                self._faults[key, trial.schedule] = fault
                if fault:
                    _log.warning("%s: a schedule of the log fails: %s", operator.name, fault)
            if not fault:
                return trial.schedule
        return None

    def schedules(self, graph: NpuGraph, npu: NpuConfig) -> dict[str, Schedule]:
        """Return the best schedules of a graph's operators by name, for `build_program`."""
        operators = program_operators(graph)
        names = [operator.name for operator in operators]
        found: dict[str, Schedule] = {}
        for operator in operators:
            schedule = self.best(operator, npu) if names.count(operator.name) == 1 else None
            if schedule is not None:
                found[operator.name] = schedule
        _log.info("%s: %d of %d schedules tuned", graph.name, len(found), len(operators))
        return found


_current: ContextVar[History | None] = ContextVar("vnpu_history", default=None)


def from_history(log: PathLike | Iterable[Record]) -> History:
    """Return the history of a log, or of records. Raises LogError as `read_log`.

    Warns where a log holds records of another version of the code: their cycles no longer hold.
    """
    if not isinstance(log, (str, os.PathLike)):
        return History(log)
    records = read_log(log)
    stale = sum(record.key.code != code_version() for record in records)
    if stale:
        _log.warning(
            "%s: %d of %d records are of another version of the code and are not used; tune again",
            log, stale, len(records),
        )  # fmt: skip
    return History(records)


@contextmanager
def apply_history_best(log: PathLike | Iterable[Record] | History) -> Iterator[History]:
    """Compile what is compiled in this context with the best schedules of a log.

    Operators that the log has no schedule for get the default. Raises LogError as `read_log`.
    """
    history = log if isinstance(log, History) else from_history(log)
    token = _current.set(history)
    try:
        yield history
    finally:
        _current.reset(token)


def tuned_schedules(graph: NpuGraph, npu: NpuConfig) -> dict[str, Schedule]:
    """Return the schedules that the context asks for: none outside of `apply_history_best`."""
    history = _current.get()
    if history is None:
        return {}
    found = history.schedules(graph, npu)
    if not found:
        _log.warning(
            "%s: the tuning log has no schedule for any operator on %s", graph.name, npu.name
        )
    return found
