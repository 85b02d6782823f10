"""A stand-in for `measure_parcel` that takes its time, or takes its process along."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from codegen.schedule import Value
from tvm_vnpu.tuner.measure import measure_parcel

SECONDS = 0.05
MARK = "VNPU_TEST_MARK"
"""Environment variable: a file that says that a process died before."""


def slowly(
    expected: str, subject: bytes, schedules: Sequence[dict[str, Value]]
) -> list[tuple[int | None, str]]:
    """Measure after a pause."""
    time.sleep(SECONDS)
    return measure_parcel(expected, subject, schedules)


def dies_once(
    expected: str, subject: bytes, schedules: Sequence[dict[str, Value]]
) -> list[tuple[int | None, str]]:
    """Die if no process did before."""
    mark = Path(os.environ[MARK])
    if not mark.exists():
        mark.touch()
        os._exit(1)
    return measure_parcel(expected, subject, schedules)


def dies_of_two(
    expected: str, subject: bytes, schedules: Sequence[dict[str, Value]]
) -> list[tuple[int | None, str]]:
    """Die of every schedule that unrolls by 2."""
    if any(knobs["unroll"] == 2 for knobs in schedules):
        os._exit(1)
    return measure_parcel(expected, subject, schedules)


def dies(
    expected: str, subject: bytes, schedules: Sequence[dict[str, Value]]
) -> list[tuple[int | None, str]]:
    """Die."""
    os._exit(1)
