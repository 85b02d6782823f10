"""What the cost model sees of a schedule: its knobs and closed-form quantities, no timeline."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from codegen import conv_estimate, vector_schedule
from codegen.ops.base import Operator
from codegen.ops.vector import VectorOperator
from codegen.ops.window import WindowOperator
from codegen.schedule import Schedule, Value
from runtime_sim.npu import NpuConfig

_KNOBS = tuple(entry.name for entry in fields(Schedule))
FEATURES = (*_KNOBS, "tile_elements", "tiles", "estimate")


def features(operator: Operator, schedule: Schedule, npu: NpuConfig) -> NDArray[np.float64]:
    """Return the features of a schedule in the order of FEATURES."""
    tile = schedule.tile_h, schedule.tile_w, schedule.tile_oc
    tiles = np.prod([-(-size // part) for size, part in zip(operator.outputs[0].hwc, tile)])
    knobs = [_number(getattr(schedule, name)) for name in _KNOBS]
    estimate = _estimate(operator, schedule, npu)
    return np.array([*knobs, float(np.prod(tile)), float(tiles), estimate])


def _number(value: Value) -> float:
    return float(len(value) if isinstance(value, str) else value)


def _estimate(operator: Operator, schedule: Schedule, npu: NpuConfig) -> float:
    if isinstance(operator, WindowOperator):
        return conv_estimate.estimate(operator.shape().thinned(), schedule, npu)
    if isinstance(operator, VectorOperator):
        return vector_schedule._estimate(operator.shape(), schedule, operator.passes, npu)
    return operator.work(npu).cycles(npu)
