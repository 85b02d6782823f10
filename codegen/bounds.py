"""Lower bounds on what a schedule can cost: never above `codegen.measure.cycles`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np

from codegen.conv_bounds import conv_bounds
from codegen.conv_costs import Columns, Floats
from codegen.ops.base import Operator
from codegen.ops.window import WindowOperator
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig


def lower_bound(operator: Operator, schedule: Schedule, npu: NpuConfig) -> int:
    """Return cycles that `schedule` cannot go below."""
    return int(lower_bounds(operator, (schedule,), npu)[0])


def lower_bounds(operator: Operator, schedules: Sequence[Schedule], npu: NpuConfig) -> Floats:
    """Return the lower bound of each schedule, in whole cycles."""
    canonical = [operator.canonical(schedule, npu) for schedule in schedules]
    return bounds_of_columns(operator, columns_of(canonical), npu)


def bounds_of_columns(operator: Operator, columns: Columns, npu: NpuConfig) -> Floats:
    """Return the lower bounds of canonical schedules, given as one array per field."""
    count = len(columns["tile_h"])
    least = np.full(count, float(math.ceil(operator.work(npu).cycles(npu))))
    if count and isinstance(operator, WindowOperator):
        return np.maximum(least, conv_bounds(operator.shape(), npu, columns).all)
    return least


def columns_of(schedules: Iterable[Schedule]) -> Columns:
    """Return schedules as one array per field."""
    rows = list(schedules)
    return {
        entry.name: np.array([getattr(row, entry.name) for row in rows])
        for entry in fields(Schedule)
    }
