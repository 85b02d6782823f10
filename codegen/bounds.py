"""Lower bounds on what a schedule can cost: never above `codegen.measure.cycles`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields

import numpy as np

from codegen.conv_bounds import conv_bounds, engine_cycles, first_issue
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
    if len(columns["tile_h"]) and isinstance(operator, WindowOperator):
        return with_work(operator, npu, conv_bounds(operator.shape(), npu, columns).all)
    return with_work(operator, npu, np.zeros(len(columns["tile_h"])))


def engine_bounds(operator: Operator, columns: Columns, npu: NpuConfig) -> Floats:
    """Return lower bounds that follow from the tile sizes and the micro-kernel alone.

    Takes schedules that are not canonical, too: only those fields are read. 0 for operators
    without a matrix command; infinite where the first tile is not shorter than the others.
    """
    if not isinstance(operator, WindowOperator):
        return np.zeros(len(columns["tile_h"]))
    first, tile = (np.asarray(columns[name], np.int64) for name in ("first_tile_h", "tile_h"))
    bounds = np.full(len(tile), np.inf)
    fits = np.flatnonzero(first < tile)
    fitting = {name: column[fits] for name, column in columns.items()}
    bounds[fits] = engine_cycles(operator.shape(), npu, fitting)
    return bounds


def with_work(operator: Operator, npu: NpuConfig, bounds: Floats) -> Floats:
    """Return the bounds, but none below that of the operator's work, whatever its schedule.

    Nothing moves before a first transfer has all its registers and its memory's latency is over.
    """
    work = operator.work(npu)
    moved = work.dram_bytes / sum(memory.bytes_per_cycle for memory in npu.memories)
    issue = min(first_issue("LOAD"), first_issue("STORE"))
    least = issue + min(memory.latency for memory in npu.memories) + moved if moved else 0
    return np.maximum(bounds, math.ceil(max(work.cycles(npu), least)))


def columns_of(schedules: Iterable[Schedule]) -> Columns:
    """Return schedules as one array per field."""
    rows = list(schedules)
    return {
        entry.name: np.array([getattr(row, entry.name) for row in rows])
        for entry in fields(Schedule)
    }
