"""Measuring schedules: the cycles of the stream that would run, here or in other processes."""

from __future__ import annotations

import logging
import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from codegen.measure import cycles, cycles_of
from codegen.ops.base import Operator
from codegen.schedule import Schedule, Value
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.code_version import versions
from tvm_vnpu.tuner.task import Task

_log = logging.getLogger(__name__)

_TOGETHER = 16
"""Candidates whose commands are costed together: NumPy's calls cost as much for one as for all."""

DIED = "the process that measured it died: out of memory?"


class WorkerVersionError(VnpuError):
    """A worker runs another version of the package."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Cycles, or why there are none."""

    cycles: int | None
    error: str = ""


class Measurer(ABC):
    """Measures candidates somewhere; results do not depend on where."""

    @abstractmethod
    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        """Yield (index, outcome) of every schedule as it becomes known, in any order."""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Let go of what the measurer holds."""

    def __enter__(self) -> Measurer:
        """Return the measurer itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()


class InProcess(Measurer):
    """Measures in this process."""

    def measure(self, task: Task, schedules: Sequence[Schedule]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes in order."""
        yield from enumerate(outcomes_of(task.operator, schedules, task.npu))


def outcomes_of(
    operator: Operator, schedules: Sequence[Schedule], npu: NpuConfig
) -> Iterator[Outcome]:
    """Yield each schedule's outcome; one that goes wrong makes no difference to the others."""
    for first in range(0, len(schedules), _TOGETHER):
        some = schedules[first : first + _TOGETHER]
        try:
            found = [Outcome(cycles) for cycles in cycles_of(operator, some, npu)]
        except Exception:  # whose fault it is, and what, comes out where each is measured alone
            found = [_outcome_of(operator, schedule, npu) for schedule in some]
        yield from found


def _outcome_of(operator: Operator, schedule: Schedule, npu: NpuConfig) -> Outcome:
    """Return a schedule's cycles; what goes wrong becomes the reason and ends nothing else."""
    try:
        return Outcome(cycles(operator, schedule, npu))
    except VnpuError as error:
        return Outcome(None, str(error))
    except Exception as error:  # a fault of the compiler costs this candidate, not the others
        _log.warning("tuner: %s", schedule.describe(), exc_info=True)
        text = " ".join(str(error).split())
        return Outcome(None, f"internal error: {type(error).__name__}: {text}")


@dataclass(frozen=True, slots=True)
class Parcel:
    """Candidates on their way to a worker, in plain values that any version can receive.

    `subject`: the pickled operator and NPU; only unpickled once the versions are known to agree.
    """

    versions: str
    subject: bytes
    schedules: list[dict[str, Value]]

    def contents(self) -> tuple[str, bytes, list[dict[str, Value]]]:
        """Return the arguments of `measure_parcel`."""
        return self.versions, self.subject, self.schedules


def pack(task: Task, schedules: Sequence[Schedule]) -> Parcel:
    """Return a parcel of candidates of one task."""
    subject = pickle.dumps((task.operator, task.npu))
    return Parcel(versions(), subject, [schedule.to_dict() for schedule in schedules])


def measure_parcel(
    expected: str, subject: bytes, schedules: Sequence[dict[str, Value]]
) -> list[tuple[int | None, str]]:
    """Return (cycles, error) of a parcel's candidates; runs in a worker.

    Raises WorkerVersionError where this process is not of the version that sent the parcel.
    """
    require_versions(expected, versions())
    operator, npu = _unpacked(subject)
    candidates = [Schedule.from_dict(knobs) for knobs in schedules]
    outcomes = outcomes_of(operator, candidates, npu)
    return [(outcome.cycles, outcome.error) for outcome in outcomes]


@lru_cache(maxsize=4)
def _unpacked(subject: bytes) -> tuple[Operator, NpuConfig]:
    """Return a parcel's subject, the same objects for the same bytes: codegen caches by them."""
    operator, npu = pickle.loads(subject)
    return operator, npu


def require_versions(expected: str, found: str) -> None:
    """Raise WorkerVersionError unless a worker's versions are the expected ones."""
    if found != expected:
        raise WorkerVersionError(
            "a worker has another version of the package",
            seen=found,
            limit=expected,
            fix="install the same version everywhere",
        )
