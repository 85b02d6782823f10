"""Applying a log: the best that passes, by signature, and never another configuration's."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.graph import NpuGraph
from codegen.ops.base import best_schedule
from codegen.program import build_program, program_operators
from codegen.schedule import Schedule
from runtime_sim.npu import load
from tests.tuner.subjects import NPU, operator, tasks
from tvm_vnpu.tuner import History, Record, Task, apply_history_best, from_history, tune_tasks
from tvm_vnpu.tuner.history import tuned_schedules
from tvm_vnpu.tuner.records import CHECK, write_log
from tvm_vnpu.tuner.task import graph_tasks


def _graph(name: str = "conv2d") -> NpuGraph:
    subject = operator(name)
    return NpuGraph("lone", (subject,), subject.inputs, subject.outputs, "integer")


def _others(task: Task, count: int) -> list[Schedule]:
    """Return schedules that are not the default."""
    default = best_schedule(task.operator, task.npu)
    space = task.operator.space(task.npu)
    found = (space.schedule(point) for point in space.points())
    return [schedule for schedule, _ in zip((s for s in found if s != default), range(count))]


def _trial(task: Task, schedule: Schedule, cycles: int, trial: int = 1) -> Record:
    return Record("trial", task.key, "vnpu-256", "", "xgb", 0, trial, schedule, cycles)


def test_a_log_decides_what_is_built(tmp_path: Path) -> None:
    graph = _graph()
    (task,) = graph_tasks([(graph, NPU)])
    (schedule,) = _others(task, 1)
    write_log([_trial(task, schedule, 10)], tmp_path / "log")
    assert tuned_schedules(graph, NPU) == {}
    with apply_history_best(tmp_path / "log"):
        chosen = tuned_schedules(graph, NPU)
    assert tuned_schedules(graph, NPU) == {}
    (layer,) = build_program(graph, NPU, chosen).layers
    assert layer.schedule == schedule != build_program(graph, NPU).layers[0].schedule


def test_the_best_comes_first_and_ties_go_to_the_earlier_trial() -> None:
    (task,) = tasks("conv2d")
    one, two, three = _others(task, 3)
    records = [_trial(task, one, 12, 1), _trial(task, two, 10, 3), _trial(task, three, 10, 2)]
    assert History(records).best(task.operator, NPU) == three
    assert History(reversed(records)).best(task.operator, NPU) == three
    failed = replace(records[2], event=CHECK, error="wrong")
    assert History([*records, failed]).best(task.operator, NPU) == two


def test_an_unchecked_schedule_is_checked_before_it_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (task,) = tasks("conv2d")
    good, bad = _others(task, 2)
    asked: list[Schedule] = []

    def fault_of(found: object, schedule: Schedule, npu: object) -> str:
        asked.append(schedule)
        return "wrong" if schedule == bad else ""

    monkeypatch.setattr("tvm_vnpu.tuner.history.fault_of", fault_of)
    history = History([_trial(task, good, 12), _trial(task, bad, 10)])
    for _ in range(2):
        assert history.best(task.operator, NPU) == good
    assert asked == [bad, good]
    assert "a schedule of the log fails: wrong" in caplog.text
    passed = replace(_trial(task, bad, 10), event=CHECK)
    checked = History([_trial(task, bad, 10), passed])
    assert checked.best(task.operator, NPU) == bad and asked == [bad, good]


@pytest.mark.parametrize("changed", ["isa", "code", "npu", "operator"])
def test_a_record_of_another_key_is_never_used(changed: str) -> None:
    (task,) = tasks("conv2d")
    (schedule,) = _others(task, 1)
    value = 0 if changed == "isa" else "other"
    key = replace(task.key, **{changed: value})  # type: ignore[arg-type]
    record = replace(_trial(task, schedule, 10), key=key)
    assert History([record]).best(task.operator, NPU) is None
    assert History([replace(record, key=task.key)]).best(task.operator, NPU) == schedule


def test_a_configuration_counts_by_content_not_by_name() -> None:
    (task,) = tasks("conv2d")
    (schedule,) = _others(task, 1)
    history = History([_trial(task, schedule, 10)])
    assert history.best(task.operator, replace(NPU, name="renamed")) == schedule
    assert history.best(task.operator, load("vnpu-64")) is None
    assert history.best(task.operator, replace(NPU, queue_depth=9)) is None


def test_operators_of_one_signature_share_their_schedule() -> None:
    (task,) = tasks("conv2d")
    (schedule,) = _others(task, 1)
    renamed = replace(task.operator, name="another", source_names=("node",))
    assert History([_trial(task, schedule, 10)]).best(renamed, NPU) == schedule


def test_names_that_stand_twice_keep_their_defaults() -> None:
    one, two = operator("conv2d", 0), operator("conv2d", 4)
    two = replace(two, name=one.name)
    graph = NpuGraph(
        "pair", (one, two), (*one.inputs, *two.inputs), (*one.outputs, *two.outputs), "integer"
    )
    (task, _) = graph_tasks([(graph, NPU)])
    (schedule,) = _others(task, 1)
    assert History([_trial(task, schedule, 10)]).schedules(graph, NPU) == {}


def test_records_of_other_code_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (task,) = tasks("conv2d")
    old = replace(_trial(task, Schedule(), 10), key=replace(task.key, code="old"))
    write_log([old, _trial(task, Schedule(), 10)], tmp_path / "log")
    with caplog.at_level(logging.WARNING):
        from_history(tmp_path / "log")
    assert caplog.messages == [
        f"{tmp_path / 'log'}: 1 of 2 records are of another version of the code and are not used; "
        "tune again"
    ]


def test_a_log_that_fits_nothing_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with apply_history_best([]), caplog.at_level(logging.WARNING):
        assert tuned_schedules(_graph(), NPU) == {}
    assert caplog.messages == ["lone: the tuning log has no schedule for any operator on vnpu-256"]


def test_parts_and_copies_are_tasks() -> None:
    subject = operator("concat", 3)
    graph = NpuGraph("lone", (subject,), subject.inputs, subject.outputs, "integer")
    found = graph_tasks([(graph, NPU)])
    assert [task.operator.kind for task in found] == ["convert"] * len(found)
    assert sum(task.weight for task in found) == len(program_operators(graph)) == 4
    tuned = tune_tasks(found, "random", 4)
    assert all(result.checked for result in tuned.results)


def test_equal_operators_are_one_task() -> None:
    graph = _graph()
    (task,) = graph_tasks([(graph, NPU), (graph, NPU)])
    assert task.weight == 2 and task.nodes == (graph.operators[0].source_names or ("conv2d2",))
    assert len(graph_tasks([(graph, NPU), (graph, load("vnpu-64"))])) == 2
