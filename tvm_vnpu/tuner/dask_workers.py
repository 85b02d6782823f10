"""Measuring on Dask workers: on many machines, or on a cluster of this one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from tvm_vnpu.tuner import code_version
from tvm_vnpu.tuner.code_version import versions
from tvm_vnpu.tuner.measure import (
    DIED,
    Measurer,
    Outcome,
    WorkerVersionError,
    measure_parcel,
    pack,
    require_versions,
)
from tvm_vnpu.tuner.task import Task

LOCAL = "local"
CONNECT_SECONDS, WORKER_SECONDS = 10.0, 60.0
_ATTEMPTS = 3
_ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?[^/]+:[0-9]+/?")


class DaskWorkers(Measurer):
    """Measures on the workers of a Dask scheduler, which may come and go.

    What a lost worker was measuring is measured again by another. A worker that joins later is
    held to the same version of the package as those that are there now.
    """

    def __init__(
        self,
        scheduler: str = LOCAL,
        jobs: int | None = None,
        *,
        worker_seconds: float = WORKER_SECONDS,
    ) -> None:
        """Connect to `scheduler`, tcp://HOST:PORT; `local` starts `jobs` workers here.

        Raises VnpuError where Dask is not installed, the scheduler cannot be reached, no worker
        joins within `worker_seconds`, and WorkerVersionError for a worker of another version.
        """
        try:
            import distributed
        except ImportError as error:
            raise VnpuError(
                "Dask is not installed", seen=error, fix="pip install tvm-vnpu[dask]"
            ) from error
        self._distributed: Any = distributed
        self.cluster: Any = None
        self.client: Any = None
        self._where = scheduler
        try:
            self._connect(scheduler, jobs)
            self._require_workers(worker_seconds)
        except BaseException:
            self.close()
            raise

    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they arrive.

        A candidate that keeps killing its workers has that as its error. Raises
        WorkerVersionError, and VnpuError where the scheduler is lost.
        """
        pending = {self._submit(task, schedules[i]): (i, 1) for i in range(len(schedules))}
        arriving = self._distributed.as_completed(
            list(pending), loop=self.client.loop, raise_errors=False
        )
        for future in arriving:
            index, attempt = pending.pop(future)
            outcome = self._outcome(future)
            if outcome is None and attempt < _ATTEMPTS:
                again = self._submit(task, schedules[index])
                pending[again] = index, attempt + 1
                arriving.add(again)
                continue
            yield index, outcome or Outcome(None, DIED)

    def close(self) -> None:
        """Disconnect, and end the workers that were started here."""
        for holder in (self.client, self.cluster):
            if holder is not None:
                holder.close()
        self.client = self.cluster = None

    def _connect(self, scheduler: str, jobs: int | None) -> None:
        distributed = self._distributed
        if scheduler != LOCAL and not _ADDRESS.fullmatch(scheduler):
            raise unreachable(scheduler)
        if scheduler == LOCAL:
            self.cluster = distributed.LocalCluster(
                n_workers=jobs,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        try:
            address = self.cluster or scheduler
            self.client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:  # TimeoutError is an OSError
            raise unreachable(scheduler) from error

    def _require_workers(self, seconds: float) -> None:
        try:
            self.client.wait_for_workers(1, timeout=seconds)
        except self._distributed.TimeoutError as error:
            raise VnpuError(
                "the Dask scheduler has no worker",
                seen=self._where,
                fix="start some with `dask worker ADDRESS`",
            ) from error
        try:
            everywhere = self.client.run(code_version.versions, on_error="return")
        except Exception as error:
            raise self._lost(error) from error
        for found in everywhere.values():
            if not isinstance(found, str):
                raise no_answer(found)
            require_versions(versions(), found)

    def _submit(self, task: Task, schedule: Schedule) -> Any:
        contents = pack(task, [schedule]).contents()
        try:
            return self.client.submit(measure_parcel, *contents, pure=False)
        except Exception as error:
            raise self._lost(error) from error

    def _outcome(self, future: Any) -> Outcome | None:
        """Return a future's outcome; None where its workers died."""
        try:
            ((cycles, fault),) = future.result()
        except self._distributed.scheduler.KilledWorker:
            return None
        except VnpuError:
            raise
        except Exception as error:
            if future.status == "error":  # the worker itself raised it: it has other code
                raise no_answer(error) from error
            raise self._lost(error) from error
        return Outcome(cycles, fault)

    def _lost(self, error: Exception) -> VnpuError:
        return VnpuError(
            "the Dask scheduler is lost",
            seen=f"{self._where}: {type(error).__name__}",
            fix="what was measured is in the log; run again to go on",
        )


def unreachable(scheduler: str) -> VnpuError:
    """Return the error of an address at which no scheduler answers."""
    return VnpuError(
        "the Dask scheduler cannot be reached",
        seen=scheduler,
        limit="an address like tcp://HOST:8786",
        fix="start one with `dask scheduler`",
    )


def no_answer(error: object) -> WorkerVersionError:
    """Return the error of a worker that does not have the package, or a very different one."""
    return WorkerVersionError(
        "a worker has no package that understands this one",
        seen=" ".join(str(error).split()),
        limit=versions(),
        fix="install the same version everywhere",
    )
