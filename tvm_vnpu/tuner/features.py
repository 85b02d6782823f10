"""What the cost model sees of schedules: their knobs and closed-form quantities, no timeline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from codegen import conv_estimate, matmul_schedule, vector_schedule
from codegen.conv_plan import ConvShape
from codegen.ops.base import Operator
from codegen.ops.matmul import Matmul
from codegen.ops.vector import VectorOperator
from codegen.ops.window import WindowOperator
from codegen.schedule import Schedule, Value
from runtime_sim.npu import NpuConfig

Vector = NDArray[np.float64]

_KNOBS = tuple(entry.name for entry in fields(Schedule))
_STEP = ("array", "vector", "load", "weights", "all_weights", "store", "controller", "convert_in")
FEATURES = (
    *_KNOBS, "tile_elements", "tiles", *(f"{name}_cycles" for name in _STEP), "slowest_cycles",
    "estimate",
)  # fmt: skip
"""Knobs (words by their length); elements of a tile and how many tiles; of convolutions, the cycles
of all steps by resource and the largest of those; the estimate that ranks the defaults."""


def features(operator: Operator, schedules: Sequence[Schedule], npu: NpuConfig) -> Vector:
    """Return a row of features, in the order of FEATURES, for each schedule."""
    shape = operator.shape().thinned() if isinstance(operator, WindowOperator) else None
    return np.array(
        [_row(operator, shape, operator.canonical(s, npu), npu) for s in schedules], np.float64
    )


def _row(
    operator: Operator, shape: ConvShape | None, schedule: Schedule, npu: NpuConfig
) -> list[float]:
    tile = schedule.tile_h, schedule.tile_w, schedule.tile_oc
    tiles = math.prod(-(-size // part) for size, part in zip(operator.outputs[0].hwc, tile))
    row = [_number(getattr(schedule, name)) for name in _KNOBS]
    row += [math.prod(tile), tiles]
    if shape is None:
        return [*row, *([0.0] * len(_STEP)), 0.0, _estimate(operator, schedule, npu)]
    step = conv_estimate.average_step(shape, schedule, npu)
    times = dict.fromkeys(_STEP, step.rounds * step.steps)
    times |= dict.fromkeys(step.PER_ROUND, step.rounds)
    cycles = [getattr(step, name) * times[name] for name in _STEP]
    return [*row, *cycles, max(cycles), step.total()]


def _number(value: Value) -> float:
    return float(len(value) if isinstance(value, str) else value)


def _estimate(operator: Operator, schedule: Schedule, npu: NpuConfig) -> float:
    if isinstance(operator, Matmul):
        return matmul_schedule.estimate(operator.shape(), schedule, npu)
    if isinstance(operator, VectorOperator):
        return vector_schedule.estimate(operator.shape(), schedule, operator.passes, npu)
    return operator.work(npu).cycles(npu)
