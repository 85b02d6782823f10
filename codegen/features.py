"""What a cost model sees of schedules: closed-form quantities, never the timeline.

Cycles are of engines and chains (`conv_bounds`); sizes and cycles are logarithms, since costs
multiply. Text knobs are numbered in the order of their knob's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from codegen import conv_estimate, matmul_schedule, vector_schedule
from codegen.bounds import columns_of, with_work
from codegen.conv_bounds import conv_bounds
from codegen.conv_costs import Columns
from codegen.ops.base import Operator
from codegen.ops.matmul import Matmul
from codegen.ops.vector import VectorOperator
from codegen.ops.window import WindowOperator
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig

KNOBS = tuple(entry.name for entry in fields(Schedule))
_TILE = ("tile_h", "tile_w", "tile_oc")
_COSTS = (
    "matrix", "vector", "convert_in", "input", "first_input", "weights", "first_weights", "once",
    "store", "last_store", "tiles", "steps", "input_uses", "weight_uses",
)  # fmt: skip
_BOUNDS = ("matrix", "vector", "load", "memory", "controller", "buffers", "queue")
FEATURES: tuple[str, ...] = (
    *KNOBS,
    *(f"log_{name}" for name in (*_TILE, "tile_ic")),
    "log_tile_elements", "log_tiles", "edge_share", "acc_share", "log_bound", "log_estimate",
    *(f"log_{name}_cost" for name in _COSTS),
    *(f"log_{name}_bound" for name in _BOUNDS),
)  # fmt: skip
"""The names of the features, in order. Costs and chains are 0 for operators without a matrix
command."""


def features(operator: Operator, schedule: Schedule, npu: NpuConfig) -> NDArray[np.float64]:
    """Return the features of a schedule."""
    return features_of(operator, (operator.canonical(schedule, npu),), npu)[0]


def features_of(
    operator: Operator, schedules: Sequence[Schedule], npu: NpuConfig
) -> NDArray[np.float64]:
    """Return the features of canonical schedules, a row each."""
    if not schedules:
        return np.zeros((0, len(FEATURES)))
    columns = columns_of(schedules)
    estimates = np.array([_estimate(operator, schedule, npu) for schedule in schedules])
    bounds, costs = _costs(operator, columns, npu)
    rows = [
        *(_numbers(operator, npu, name, columns[name]) for name in KNOBS),
        *(_log(columns[name]) for name in (*_TILE, "tile_ic")),
        *_sizes(operator, columns, npu),
        _log(with_work(operator, npu, bounds)),
        _log(estimates),
        *costs,
    ]
    return np.stack(rows, axis=1)


def _numbers(
    operator: Operator, npu: NpuConfig, name: str, column: NDArray[np.generic]
) -> NDArray[np.float64]:
    if column.dtype.kind != "U":
        return column.astype(np.float64)
    values = next((knob.values for knob in operator.knobs(npu) if knob.name == name), ())
    order = [str(value) for value in values]
    return np.array([order.index(v) if v in order else -1 for v in column.tolist()], np.float64)


def _log(column: NDArray[np.generic]) -> NDArray[np.float64]:
    return np.log2(1 + column.astype(np.float64))


def _sizes(operator: Operator, columns: Columns, npu: NpuConfig) -> list[NDArray[np.float64]]:
    """Return the tile's elements, how many tiles there are, their waste and their share of ACC."""
    tile = [columns[name].astype(np.float64) for name in _TILE]
    counts = [np.ceil(size / part) for size, part in zip(operator.outputs[0].hwc, tile)]
    elements, tiles = np.prod(tile, axis=0), np.prod(counts, axis=0)
    waste = 1 - operator.outputs[0].elements / (elements * tiles)
    share = elements * columns["acc_buffers"].astype(np.float64) / npu.acc_elements
    return [_log(elements), _log(tiles), waste, share]


def _costs(
    operator: Operator, columns: Columns, npu: NpuConfig
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Return the bounds of convolutions (else 0), and the features of costs and chains."""
    nothing = np.zeros(len(columns["tile_h"]))
    if not isinstance(operator, WindowOperator):
        return nothing, [nothing] * (len(_COSTS) + len(_BOUNDS))
    bounds = conv_bounds(operator.shape(), npu, columns)
    costs = [_log(getattr(bounds.costs, name)) for name in _COSTS]
    return bounds.all, costs + [_log(getattr(bounds, name)) for name in _BOUNDS]


def _estimate(operator: Operator, schedule: Schedule, npu: NpuConfig) -> float:
    if isinstance(operator, WindowOperator):
        return conv_estimate.estimate(operator.shape().thinned(), schedule, npu)
    if isinstance(operator, Matmul):
        return matmul_schedule.estimate(operator.shape(), schedule, npu)
    if isinstance(operator, VectorOperator):
        return vector_schedule.estimate(operator.shape(), schedule, operator.passes, npu)
    return operator.work(npu).cycles(npu)
