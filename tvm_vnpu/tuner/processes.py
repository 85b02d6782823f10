"""Measuring in worker processes of this machine."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from tvm_vnpu.tuner.measure import DIED, Measurer, Outcome, measure_parcel, pack
from tvm_vnpu.tuner.task import Task
from tvm_vnpu.worker_processes import cores, new_pool

_PARCELS_PER_PROCESS = 2


class Processes(Measurer):
    """Measures in `jobs` processes, which start afresh and live until `close`.

    A script that uses them runs under `if __name__ == "__main__":`.
    """

    def __init__(self, jobs: int | None = None) -> None:
        """Start nothing yet. Raises VnpuError for less than one process."""
        if jobs is not None and jobs < 1:
            raise VnpuError("tuning needs a process", seen=f"{jobs} jobs", limit="at least 1")
        self.jobs = jobs or cores()
        self._pool: ProcessPoolExecutor | None = None
        self._proven = False

    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes as they arrive.

        Candidates that a dying process took along are measured again one by one; one that kills
        its process again has that as its error. Raises VnpuError where no process ever lives.
        """
        count = self.jobs * _PARCELS_PER_PROCESS
        lost = yield from self._round(task, schedules, _split(range(len(schedules)), count))
        for index in lost:
            if (yield from self._round(task, schedules, [[index]])):
                if not self._proven:
                    raise VnpuError(
                        "no worker process of the tuner survived",
                        fix='tune under `if __name__ == "__main__":`, or with one job',
                    )
                yield index, Outcome(None, DIED)

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        self._pool = None

    def _round(
        self, task: Task, schedules: Sequence[Schedule], parts: Sequence[Sequence[int]]
    ) -> Generator[tuple[int, Outcome], None, list[int]]:
        """Measure parts, each a parcel; the value returned is what a dying process took along."""
        if self._pool is None:
            self._pool = new_pool(self.jobs)
        left = {index for part in parts for index in part}
        try:
            waiting = {}
            for part in parts:
                parcel = pack(task, [schedules[index] for index in part])
                waiting[self._pool.submit(measure_parcel, *parcel.contents())] = part
            for future in as_completed(waiting):
                results = future.result()
                self._proven = True
                for index, (cycles, error) in zip(waiting[future], results, strict=True):
                    left.discard(index)
                    yield index, Outcome(cycles, error)
        except BrokenProcessPool:
            self.close()
        return sorted(left)


def _split(items: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Return up to `parts` runs of about equal length."""
    size = -(-len(items) // parts) if items else 1
    return [items[start : start + size] for start in range(0, len(items), size)]
