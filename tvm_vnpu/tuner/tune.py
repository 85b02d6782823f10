"""Tune tasks into a log: propose, measure, record, and check the winner."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from runtime_sim.errors import VnpuError
from tvm_vnpu.tuner.defaults import BATCH, MAX_TRIALS, TRIALS
from tvm_vnpu.tuner.ledger import Ledger, Origin
from tvm_vnpu.tuner.measure import InProcess, Measurer
from tvm_vnpu.tuner.records import Log, LogError, PathLike, Record, read_log
from tvm_vnpu.tuner.result import TaskResult, Tuned
from tvm_vnpu.tuner.searchers import searcher_class, subject_of
from tvm_vnpu.tuner.task import Task, default_schedule
from tvm_vnpu.tuner.transfer import Transfer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
    """How far a run is: trials done of all, and the cycles of all tasks, best so far and default.

    `task` counts from 0; tasks that have not begun are at their defaults.
    """

    done: int
    total: int
    task: int
    tasks: int
    best: int
    default: int


Progress = Callable[[Step], None]


class TuningInterrupted(KeyboardInterrupt):
    """Ctrl-C: what was measured is in the log, `tuned` is the best so far."""

    def __init__(self, tuned: Tuned, log: PathLike | None) -> None:
        """Say what is kept."""
        kept = f"; {os.fspath(log)} keeps them, and the same command goes on" if log else ""
        super().__init__(f"interrupted after {tuned.trials:,} trials{kept}")
        self.tuned = tuned


@dataclass(frozen=True, slots=True)
class Settings:
    """How tasks are tuned; results depend on these and on nothing else."""

    tuner: str = "xgb"
    trials: int = TRIALS
    seed: int = 0
    early_stop: int | None = None
    batch: int = BATCH

    def check(self) -> None:
        """Raise VnpuError for an unknown tuner, a missing package, or less than one trial."""
        for module in searcher_class(self.tuner).needs:
            if find_spec(module) is None:
                raise VnpuError(
                    f"the tuner {self.tuner!r} needs {module}, which is not installed",
                    fix="pip install tvm-vnpu[tune], or use another tuner",
                )
        for name in ("trials", "early_stop", "batch"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MAX_TRIALS:
                words = name.replace("_", " ")
                raise VnpuError(f"{words} must be 1 to {MAX_TRIALS:,}", seen=value)
        if self.seed < 0:
            raise VnpuError("the seed is negative", seen=self.seed, limit="at least 0")


def tune_tasks(
    tasks: Sequence[Task],
    tuner: str = "xgb",
    trials: int = TRIALS,
    log: PathLike | None = None,
    *,
    seed: int = 0,
    early_stop: int | None = None,
    measure: Measurer | None = None,
    batch: int = BATCH,
    transfer: Iterable[PathLike] = (),
    progress: Progress | None = None,
) -> Tuned:
    """Tune tasks one after the other, `trials` points each, and return the best of each.

    `tuner`: xgb, ga, random or grid. `log`: a file that every measurement is appended to; what it
    holds already is not measured again, so a run that was killed goes on where it was and ends
    with the same best. `early_stop`: give a task up after so many trials without a gain. `measure`:
    where to measure (`InProcess()`, `Processes(jobs)`, `DaskWorkers(scheduler)`); results are the
    same. `batch`: points proposed at once. `transfer`: logs that the cost model learns from first.
    Every winner passes the static verifier and equals the NumPy reference on random data.

    Raises VnpuError for settings that are not legal, LogError for a log that cannot be used,
    ScheduleError for an operator without a legal schedule, and TuningInterrupted, which is a
    KeyboardInterrupt.
    """
    settings = Settings(tuner, trials, seed, early_stop, batch)
    settings.check()
    learnt = Transfer.of_logs(transfer)
    with ExitStack() as stack:
        known, writer = _open(log, stack)
        run = Run(tasks, settings, Ledger(known, writer, measure or InProcess()), learnt, progress)
        try:
            run.all()
        except KeyboardInterrupt:
            raise TuningInterrupted(run.tuned(), log) from None
        return run.tuned()


def _open(log: PathLike | None, stack: ExitStack) -> tuple[list[Record], Log | None]:
    """Return what a log holds, and the log opened for more."""
    if log is None:
        return [], None
    known = read_log(log) if Path(log).is_file() else []
    return known, stack.enter_context(Log(log))


def check_log(log: PathLike) -> None:
    """Raise LogError unless a run can append to `log` and read what it holds."""
    if Path(log).is_file():
        read_log(log, warn=False)
    with Log(log):
        pass


@dataclass(slots=True)
class _State:
    """One task while it is tuned: the default's record, and those of the trials."""

    task: Task
    default: Record
    trials: list[Record] = field(default_factory=list)
    measured: int = 0
    winner: Record | None = None
    faults: list[str] = field(default_factory=list)

    def ranked(self) -> list[Record]:
        """Return what was measured, best first."""
        found = [r for r in (self.default, *self.trials) if r.cycles is not None]
        return sorted({r.schedule: r for r in reversed(found)}.values(), key=Record.rank)

    def best(self) -> Record:
        """Return the winner, or the best so far."""
        return self.winner or self.ranked()[0]

    def stale(self) -> int:
        """Return how many trials in a row have gained nothing."""
        return len(self.trials) - min(self.ranked()[0].trial, len(self.trials))

    def result(self) -> TaskResult:
        """Return what is known."""
        best = self.best()
        assert best.cycles is not None and self.default.cycles is not None
        return TaskResult(
            self.task, self.default.cycles, best.schedule, best.cycles, len(self.trials),
            self.measured, self.winner is not None, tuple(self.faults),
        )  # fmt: skip


class Run:
    """A run over all tasks."""

    def __init__(
        self,
        tasks: Sequence[Task],
        settings: Settings,
        ledger: Ledger,
        transfer: Transfer,
        progress: Progress | None = None,
    ) -> None:
        """Start with nothing measured."""
        self._tasks, self._settings, self._ledger = list(tasks), settings, ledger
        self._transfer, self._progress = transfer, progress
        self._origin = Origin(settings.tuner, settings.seed)
        self._states: list[_State] = []

    def all(self) -> None:
        """Measure the defaults, then tune task after task."""
        self._states = [self._begin(task) for task in self._tasks]
        for index, state in enumerate(self._states):
            self._tune(index, state)

    def tuned(self) -> Tuned:
        """Return what is known by now."""
        results = tuple(state.result() for state in self._states)
        npus = ", ".join(dict.fromkeys(task.npu.name for task in self._tasks))
        return Tuned(self._settings.tuner, self._settings.seed, npus, results)

    def _begin(self, task: Task) -> _State:
        before = self._ledger.measured
        schedule = default_schedule(task)
        subject = subject_of(task.operator, task.npu, self._settings.seed)
        draft = self._origin.draft(task, 0, schedule, subject.featurizer.plain(schedule))
        (record,) = self._ledger.complete(task, [draft])
        if record.cycles is None:
            raise VnpuError(f"{task.operator.name}: the default schedule fails", seen=record.error)
        wrong = self._ledger.wrong_cycles(task, record)
        if wrong:
            raise LogError(f"{task.operator.name}: {wrong}", fix="tune again, into another file")
        return _State(task, record, measured=self._ledger.measured - before)

    def _tune(self, index: int, state: _State) -> None:
        task, settings = state.task, self._settings
        subject = subject_of(task.operator, task.npu, settings.seed)
        searcher = searcher_class(settings.tuner)(subject)
        searcher.learn(self._transfer.for_kind(task.operator.kind))
        self._report(index)
        while len(state.trials) < settings.trials:
            if settings.early_stop and state.stale() >= settings.early_stop:
                break
            points = searcher.propose(min(settings.batch, settings.trials - len(state.trials)))
            if not points:
                break
            schedules = [subject.space.schedule(point) for point in points]
            drafts = [
                self._origin.draft(task, trial, schedule, subject.featurizer.plain(schedule))
                for trial, schedule in enumerate(schedules, len(state.trials) + 1)
            ]
            before = self._ledger.measured
            records = self._ledger.complete(task, drafts)
            state.measured += self._ledger.measured - before
            state.trials += records
            searcher.update([(p, r.cycles) for p, r in zip(points, records)])
            self._report(index)
        self._transfer.add(task.operator.kind, searcher.experience)
        self._crown(state)

    def _crown(self, state: _State) -> None:
        """Keep the best trial that passes its check. Raises VnpuError where none does."""
        for record in state.ranked():
            fault = self._ledger.wrong_cycles(state.task, record)
            fault = fault or self._ledger.fault(state.task, record)
            if not fault:
                state.winner = record
                return
            state.faults.append(f"{record.schedule.describe()}: {fault}")
            _log.warning(
                "%s: a schedule of %d cycles fails its check, the next best is taken: %s",
                state.task.operator.name, record.cycles, state.faults[-1],
            )  # fmt: skip
        raise VnpuError(
            f"{state.task.operator.name}: no schedule passes its check", seen=state.faults[0]
        )

    def _report(self, index: int) -> None:
        if self._progress is None:
            return
        best = sum(state.task.weight * (state.best().cycles or 0) for state in self._states)
        default = sum(state.task.weight * (state.default.cycles or 0) for state in self._states)
        done = index * self._settings.trials + len(self._states[index].trials)
        total = len(self._states) * self._settings.trials
        self._progress(Step(done, total, index, len(self._states), best, default))
