"""Dask: results of the local run whatever happens to workers; clear refusals."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime_sim.errors import VnpuError
from tests.tuner import slow
from tests.tuner.subjects import tasks
from tvm_vnpu.tuner import DaskWorkers, Tuned, read_log, tune_tasks
from tvm_vnpu.tuner.code_version import versions
from tvm_vnpu.tuner.measure import WorkerVersionError

KINDS = ("conv2d", "max_pool")


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaskWorkers]:
    monkeypatch.setenv(slow.MARK, str(tmp_path / "mark"))
    with DaskWorkers("local", 2) as measurer:
        yield measurer


def _tuned(log: Path, measurer: DaskWorkers | None = None) -> Tuned:
    return tune_tasks(tasks(*KINDS), "ga", 24, log, batch=8, measure=measurer)


def test_a_killed_worker_loses_nothing(
    workers: DaskWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_vnpu.tuner.dask_workers.measure_parcel", slow.slowly)
    pids = [nanny.pid for nanny in workers.cluster.workers.values()]
    killed: list[int] = []

    def kill(step: object) -> None:
        if len(read_log(tmp_path / "there")) > 10 and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    there = tune_tasks(
        tasks(*KINDS), "ga", 24, tmp_path / "there", batch=8, measure=workers, progress=kill
    )
    here = _tuned(tmp_path / "here")
    assert killed
    assert [r.schedule for r in there.results] == [r.schedule for r in here.results]
    assert set(read_log(tmp_path / "there")) == set(read_log(tmp_path / "here"))


def test_a_worker_that_dies_while_it_measures(
    workers: DaskWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_vnpu.tuner.dask_workers.measure_parcel", slow.dies_once)
    there = _tuned(tmp_path / "there", workers)
    assert (tmp_path / "mark").exists()
    assert there.cycles == _tuned(tmp_path / "here").cycles
    assert set(read_log(tmp_path / "there")) == set(read_log(tmp_path / "here"))


def test_a_worker_of_another_version_is_refused(
    workers: DaskWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_vnpu.tuner.measure.versions", lambda: "tvm-vnpu 9.9")
    with pytest.raises(WorkerVersionError) as caught:
        tune_tasks(tasks("conv2d"), "random", 2, measure=workers)
    assert str(caught.value) == (
        f"a worker has another version of the package: seen {versions()}; limit tvm-vnpu 9.9; "
        "install the same version everywhere"
    )
    monkeypatch.setattr("tvm_vnpu.tuner.dask_workers.versions", lambda: "tvm-vnpu 9.9")
    with pytest.raises(WorkerVersionError, match="limit tvm-vnpu 9.9"):
        DaskWorkers(workers.cluster.scheduler_address)


def test_a_scheduler_that_is_lost(workers: DaskWorkers, tmp_path: Path) -> None:
    def stop(step: object) -> None:
        if len(read_log(tmp_path / "log")) > 4:
            workers.cluster.close()

    with pytest.raises(VnpuError, match="the Dask scheduler is lost: seen local"):
        tune_tasks(tasks(*KINDS), "random", 24, tmp_path / "log", batch=8, measure=workers,
                   progress=stop)  # fmt: skip


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "udp://127.0.0.1:9"])
def test_a_scheduler_that_cannot_be_reached(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_vnpu.tuner.dask_workers.CONNECT_SECONDS", 0.5)
    with pytest.raises(VnpuError) as caught:
        DaskWorkers(address)
    assert str(caught.value) == (
        f"the Dask scheduler cannot be reached: seen {address}; limit an address like "
        "tcp://HOST:8786; start one with `dask scheduler`"
    )


def test_a_scheduler_without_workers() -> None:
    import distributed

    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster:
        address = cluster.scheduler_address
        with pytest.raises(VnpuError) as caught:
            DaskWorkers(address, worker_seconds=0.2)
    assert str(caught.value) == (
        f"the Dask scheduler has no worker: seen {address}; start some with `dask worker ADDRESS`"
    )
