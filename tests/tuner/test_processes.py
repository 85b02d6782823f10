"""Worker processes: their deaths cost nothing but the candidate that causes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen import measure
from codegen.assemble import Block
from codegen.ops.base import Operator
from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tests.tuner import slow
from tests.tuner.subjects import tasks
from tvm_vnpu.tuner import InProcess, Processes, tune_tasks
from tvm_vnpu.tuner.code_version import versions
from tvm_vnpu.tuner.measure import (
    DIED,
    Measurer,
    Outcome,
    WorkerVersionError,
    measure_parcel,
    pack,
)
from tvm_vnpu.tuner.task import Task

HOME = "tvm_vnpu.tuner.processes.measure_parcel"


def _schedules(task: Task, count: int) -> list[Schedule]:
    space = task.operator.space(task.npu)
    return [space.schedule(point) for point, _ in zip(space.points(), range(count))]


def _outcomes(measurer: Measurer, task: Task, count: int) -> dict[int, Outcome]:
    found = list(measurer.measure(task, _schedules(task, count)))
    assert len(found) == count
    return dict(found)


def test_a_dead_process_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(slow.MARK, str(tmp_path / "mark"))
    monkeypatch.setattr(HOME, slow.dies_once)
    (task,) = tasks("conv2d")
    with Processes(2) as measurer:
        assert _outcomes(measurer, task, 10) == _outcomes(InProcess(), task, 10)
    assert (tmp_path / "mark").exists()


def test_a_deadly_candidate_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HOME, slow.dies_of_two)
    (task,) = tasks("conv2d")
    wanted = _outcomes(InProcess(), task, 5)
    deadly = [i for i, s in enumerate(_schedules(task, 5)) if s.unroll == 2]
    with Processes(1) as measurer:
        found = _outcomes(measurer, task, 5)
    assert deadly and found == wanted | dict.fromkeys(deadly, Outcome(None, DIED))


def test_no_process_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HOME, slow.dies)
    with Processes(1) as measurer, pytest.raises(VnpuError) as caught:
        tune_tasks(tasks("conv2d"), "random", 2, measure=measurer)
    assert str(caught.value) == (
        'no worker process of the tuner survived: tune under `if __name__ == "__main__":`, '
        "or with one job"
    )


def test_no_process_is_no_measurer() -> None:
    with pytest.raises(VnpuError, match="tuning needs a process: seen 0 jobs; limit at least 1"):
        Processes(0)


def test_a_worker_of_another_version_refuses() -> None:
    (task,) = tasks("conv2d")
    _, subject, schedules = pack(task, []).contents()
    with pytest.raises(WorkerVersionError) as caught:
        measure_parcel("tvm-vnpu 9.9", subject, schedules)
    assert str(caught.value) == (
        f"a worker has another version of the package: seen {versions()}; limit tvm-vnpu 9.9; "
        "install the same version everywhere"
    )


def test_a_fault_of_the_compiler_costs_one_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates are costed together; the others' cycles come out all the same."""
    (task,) = tasks("conv2d")
    wanted, broken = _outcomes(InProcess(), task, 20), _schedules(task, 20)[17]
    whole = measure._blocks

    def fail(operator: Operator, schedule: Schedule, npu: NpuConfig) -> list[Block]:
        if schedule == broken:
            raise ZeroDivisionError("one\ntwo")
        return whole(operator, schedule, npu)

    monkeypatch.setattr("codegen.measure._blocks", fail)
    error = Outcome(None, "internal error: ZeroDivisionError: one two")
    assert _outcomes(InProcess(), task, 20) == wanted | {17: error}
