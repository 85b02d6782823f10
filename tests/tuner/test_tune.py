"""Tuning: repeatable, resumable, the same wherever it is measured, and only checked winners."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.ops.base import best_schedule
from codegen.schedule import Schedule, ScheduleError
from runtime_sim.errors import VnpuError
from tests.tuner.subjects import NPU, TINY, operator, tasks
from tvm_vnpu.tuner import History, InProcess, Processes, Task, Tuned, read_log, tune_tasks
from tvm_vnpu.tuner.measure import Measurer, Outcome
from tvm_vnpu.tuner.searchers import searchers
from tvm_vnpu.tuner.tune import Step, TuningInterrupted

KINDS = ("conv2d", "max_pool", "convert")


class Counting(InProcess):
    """Measures here and keeps what it was asked for."""

    def __init__(self, stop_after: int = 1 << 30) -> None:
        self.asked: list[Schedule] = []
        self._left = stop_after

    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        for index, outcome in super().measure(task, schedules):
            if not self._left:
                raise KeyboardInterrupt
            self._left -= 1
            self.asked.append(schedules[index])
            yield index, outcome


def _best(tuned: Tuned) -> list[tuple[int, Schedule]]:
    return [(result.cycles, result.schedule) for result in tuned.results]


@pytest.mark.parametrize("tuner", searchers())
def test_a_seed_repeats_a_run(tuner: str, tmp_path: Path) -> None:
    logs = [tmp_path / "a", tmp_path / "b"]
    runs = [tune_tasks(tasks(*KINDS), tuner, 12, log, seed=5, batch=4) for log in logs]
    assert _best(runs[0]) == _best(runs[1])
    assert logs[0].read_text() == logs[1].read_text()
    for result in runs[0].results:
        assert result.checked and result.faults == ()
        assert result.cycles <= result.default_cycles
        assert result.task.operator.lower(result.schedule, NPU)


def test_seeds_differ(tmp_path: Path) -> None:
    for seed in (0, 1):
        tune_tasks(tasks("conv2d"), "random", 8, tmp_path / str(seed), seed=seed)
    tried = [{r.schedule for r in read_log(tmp_path / str(seed))} for seed in (0, 1)]
    assert tried[0] != tried[1]


def test_trials_are_distinct_and_counted(tmp_path: Path) -> None:
    (result,) = tune_tasks(tasks("conv2d"), "xgb", 20, tmp_path / "log", batch=6).results
    trials = [r for r in read_log(tmp_path / "log") if r.event == "trial"]
    assert [record.trial for record in trials] == list(range(21))
    assert len({record.schedule for record in trials[1:]}) == 20
    assert trials[0].schedule == trials[1].schedule  # the model starts from the heuristic's pick
    assert (result.trials, result.measured) == (20, 20)


def test_processes_give_the_same(tmp_path: Path) -> None:
    here = tune_tasks(tasks(*KINDS), "xgb", 12, tmp_path / "here", batch=6)
    with Processes(2) as measurer:
        there = tune_tasks(tasks(*KINDS), "xgb", 12, tmp_path / "there", batch=6, measure=measurer)
    assert _best(here) == _best(there)
    assert set(read_log(tmp_path / "here")) == set(read_log(tmp_path / "there"))


@pytest.mark.parametrize("tuner", ["xgb", "ga"])
@pytest.mark.parametrize("stop", [1, 9, 20])
def test_an_interrupted_run_goes_on_where_it_was(tuner: str, stop: int, tmp_path: Path) -> None:
    whole = tune_tasks(tasks(*KINDS), tuner, 10, tmp_path / "whole", batch=4)
    with pytest.raises(TuningInterrupted) as caught:
        tune_tasks(
            tasks(*KINDS), tuner, 10, tmp_path / "log", batch=4, measure=Counting(stop_after=stop)
        )
    assert str(caught.value).endswith(
        f"{tmp_path / 'log'} keeps them, and the same command goes on"
    )
    kept = [record for record in read_log(tmp_path / "log") if record.event == "trial"]
    known = {(record.key, record.schedule) for record in kept}
    assert len(known) == stop
    measurer = Counting()
    resumed = tune_tasks(tasks(*KINDS), tuner, 10, tmp_path / "log", batch=4, measure=measurer)
    assert _best(resumed) == _best(whole)
    assert set(read_log(tmp_path / "log")) == set(read_log(tmp_path / "whole"))
    assert len(measurer.asked) == resumed.measured == whole.measured - stop


def test_an_interrupted_run_has_a_best_so_far() -> None:
    with pytest.raises(TuningInterrupted) as caught:
        tune_tasks(tasks(*KINDS), "random", 10, batch=5, measure=Counting(stop_after=9))
    results = caught.value.tuned.results
    assert [result.trials for result in results] == [5, 0, 0]
    assert [result.checked for result in results] == [False, False, False]
    assert str(caught.value) == "interrupted after 5 trials"


def test_more_trials_go_on_from_fewer(tmp_path: Path) -> None:
    tune_tasks(tasks("conv2d"), "ga", 8, tmp_path / "log", batch=4)
    more = tune_tasks(tasks("conv2d"), "ga", 16, tmp_path / "log", batch=4)
    once = tune_tasks(tasks("conv2d"), "ga", 16, batch=4)
    assert _best(more) == _best(once)
    assert more.measured < once.measured


def test_a_small_space_ends_the_run() -> None:
    subject = Task.of(operator("average_pool", 1), NPU)
    for tuner in searchers():
        (result,) = tune_tasks([subject], tuner, 64).results
        assert (result.trials, result.measured) == (1, 1)


def test_early_stop() -> None:
    (result,) = tune_tasks(tasks("dense"), "random", 200, early_stop=5, batch=5).results
    assert result.trials < 200


class Flaky(InProcess):
    """Fails for some schedules."""

    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        for index, outcome in super().measure(task, schedules):
            if schedules[index].unroll == 2:
                outcome = Outcome(None, "it would not")
            yield index, outcome


@pytest.mark.parametrize("tuner", searchers())
def test_a_failing_measurement_costs_only_itself(tuner: str, tmp_path: Path) -> None:
    (result,) = tune_tasks(tasks("conv2d"), tuner, 24, tmp_path / "log", measure=Flaky()).results
    assert result.schedule.unroll != 2
    failed = [record for record in read_log(tmp_path / "log") if record.cycles is None]
    assert {record.error for record in failed} <= {"it would not"}


def test_a_default_that_fails_is_an_error() -> None:
    class Broken(Measurer):
        def measure(
            self, task: Task, schedules: Sequence[Schedule]
        ) -> Iterator[tuple[int, Outcome]]:
            yield 0, Outcome(None, "no")

    with pytest.raises(VnpuError, match="the default schedule fails: seen no"):
        tune_tasks(tasks("conv2d"), "random", 1, measure=Broken())


def test_a_winner_that_fails_its_check_is_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    subject = tasks("conv2d")
    honest = tune_tasks(subject, "random", 20, tmp_path / "honest")
    winner = honest.results[0].schedule

    def fault_of(found: object, schedule: Schedule, npu: object) -> str:
        return "one byte is wrong" if schedule == winner else ""

    monkeypatch.setattr("tvm_vnpu.tuner.ledger.fault_of", fault_of)
    with caplog.at_level(logging.WARNING):
        (result,) = tune_tasks(subject, "random", 20, tmp_path / "log").results
    assert result.schedule != winner and result.checked
    assert result.cycles >= honest.results[0].cycles
    assert result.faults == (f"{winner.describe()}: one byte is wrong",)
    assert "fails its check, the next best is taken" in caplog.text
    history = History(read_log(tmp_path / "log"))
    assert history.best(subject[0].operator, NPU) == result.schedule


def test_no_schedule_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_vnpu.tuner.ledger.fault_of", lambda *arguments: "wrong")
    with pytest.raises(VnpuError, match="no schedule passes its check: seen tile .*: wrong"):
        tune_tasks(tasks("conv2d"), "random", 2)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"tuner": "anneal"}, "unknown tuner 'anneal': limit one of xgb, ga, random, grid; "),
        ({"trials": 0}, "trials must be 1 to 100,000: seen 0"),
        ({"early_stop": 0}, "early stop must be 1 to 100,000: seen 0"),
        ({"batch": -1}, "batch must be 1 to 100,000: seen -1"),
        ({"seed": -1}, "the seed is negative: seen -1; limit at least 0"),
    ],
)
def test_wrong_settings(options: dict[str, object], line: str) -> None:
    with pytest.raises(VnpuError) as caught:
        tune_tasks(tasks("conv2d"), **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)


def test_a_space_without_a_legal_point() -> None:
    small = replace(TINY, spm_kib=1, acc_kib=1)
    subject = Task.of(operator("dense", 5), small)
    with pytest.raises(ScheduleError, match="has no legal schedule on tiny-4x8"):
        tune_tasks([subject], "random", 1)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_vnpu.tuner.tune.find_spec", lambda module: None)
    with pytest.raises(VnpuError) as caught:
        tune_tasks(tasks("conv2d"), "xgb", 1)
    assert str(caught.value) == (
        "the tuner 'xgb' needs xgboost, which is not installed: "
        "pip install tvm-vnpu[tune], or use another tuner"
    )


def test_progress_tells_the_best_of_the_whole() -> None:
    steps: list[Step] = []
    tuned = tune_tasks(tasks(*KINDS), "random", 6, batch=3, progress=steps.append)
    assert [step.done for step in steps] == [0, 3, 6, 6, 9, 12, 12, 15, 18]
    assert {(step.total, step.tasks, step.default) for step in steps} == {
        (18, 3, tuned.default_cycles)
    }
    assert steps[0].best == tuned.default_cycles and steps[-1].best == tuned.cycles
    assert [step.best for step in steps] == sorted((step.best for step in steps), reverse=True)


def test_totals_weigh_tasks() -> None:
    conv, pool = tasks("conv2d", "max_pool")
    tuned = tune_tasks([replace(conv, weight=3), pool], "random", 2)
    one, two = tuned.results
    assert tuned.cycles == 3 * one.cycles + two.cycles
    assert tuned.default_cycles == 3 * one.default_cycles + two.default_cycles
    assert "times as fast" in str(tuned) and "<table" in tuned._repr_html_()


def test_an_earlier_log_changes_where_a_model_looks(tmp_path: Path) -> None:
    small, large = Task.of(operator("conv2d", 0), NPU), Task.of(operator("conv2d", 4), NPU)
    tune_tasks([small], "random", 64, tmp_path / "earlier")
    plain = tune_tasks([large], "xgb", 12, tmp_path / "plain")
    taught = tune_tasks([large], "xgb", 12, tmp_path / "taught", transfer=[tmp_path / "earlier"])
    tried = [[r.schedule for r in read_log(tmp_path / n)] for n in ("plain", "taught")]
    assert tried[0][:2] == tried[1][:2] and tried[0] != tried[1]
    assert taught.results[0].default_cycles == plain.results[0].default_cycles


def test_the_default_is_measured_in_the_form_of_the_space(tmp_path: Path) -> None:
    (task,) = tasks("convert")
    tune_tasks([task], "grid", 1, tmp_path / "log")
    default, space = best_schedule(task.operator, NPU), task.operator.space(NPU)
    assert read_log(tmp_path / "log")[0].schedule == space.schedule(space.point_of(default))
