"""Tune a few small operators into the log that the first argument names; for tests that kill it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

from codegen.schedule import Schedule
from tests.tuner.subjects import tasks
from tvm_vnpu.tuner import InProcess, Task, Tuned, tune_tasks
from tvm_vnpu.tuner.measure import Outcome

KINDS = ("conv2d", "max_pool")
TRIALS, BATCH = 10, 4


class Slow(InProcess):
    """Measures with pauses, so that a kill finds it at work."""

    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        """Yield outcomes, each after a pause."""
        for index, outcome in super().measure(task, schedules):
            time.sleep(0.02)
            yield index, outcome


def tuned(log: str, slow: bool = False) -> Tuned:
    """Return the run's result."""
    measurer = Slow() if slow else InProcess()
    return tune_tasks(tasks(*KINDS), "xgb", TRIALS, log, seed=3, batch=BATCH, measure=measurer)


if __name__ == "__main__":
    tuned(sys.argv[1], slow=True)
