"""Cycles of every instruction on its engine: one function per row, as the table's timing text says.

Each function takes a column per field (int64 arrays over all commands of the instruction) and
returns whole cycles, rounded up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from runtime_sim.isa.fields import Queue
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.npu import NpuConfig
from runtime_sim.traffic import bursts, memory_index

Column = NDArray[np.int64]
Fields = Mapping[str, Column]
Cost = Callable[[Fields, NpuConfig], Column]
SOFTMAX_PASSES = 3


def load(f: Fields, config: NpuConfig) -> Column:
    """Return the data phase: whole bursts over the memory's bytes per cycle."""
    return _transfer(f, config)


def store(f: Fields, config: NpuConfig) -> Column:
    """Return the data phase: whole bursts over the memory's bytes per cycle."""
    return _transfer(f, config)


def conv(f: Fields, config: NpuConfig) -> Column:
    """Return passes times what streams through, at least rows, plus filling and draining.

    Of pixels and output channels one fills the array's columns, a block a pass; the other streams.
    """
    taps = f["kh"] * f["kw"]
    spread = taps * ceil_divide(f["ic"], config.array_rows)
    dense = ceil_divide(taps * f["ic"], config.array_rows)
    passes = np.where(f["packed"] == 1, dense, spread)
    pixels, channels, swapped = f["out_h"] * f["out_w"], f["oc"], f["stationary"] == 1
    blocks = ceil_divide(np.where(swapped, pixels, channels), config.array_cols)
    streamed = np.maximum(np.where(swapped, channels, pixels), config.array_rows)
    return blocks * passes * streamed + _fill_and_drain(config)


def dwconv(f: Fields, config: NpuConfig) -> Column:
    """Return the depthwise rate's share of the array, one column a channel, plus fill and drain."""
    products = f["out_h"] * f["out_w"] * f["kh"] * f["kw"]
    rate = config.array_rows * config.depthwise_rate
    per_block = np.ceil(products / rate).astype(np.int64)
    return ceil_divide(f["c"] * f["mult"], config.array_cols) * per_block + _fill_and_drain(config)


def matmul(f: Fields, config: NpuConfig) -> Column:
    """Return passes of the second matrix times max(m, rows), plus fill and drain."""
    passes = ceil_divide(f["n"], config.array_cols) * ceil_divide(f["k"], config.array_rows)
    return passes * np.maximum(f["m"], config.array_rows) + _fill_and_drain(config)


def requant(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over the tensor."""
    return ceil_divide(f["h"] * f["w"] * f["c"], config.lanes)


def eltwise(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over the tensor."""
    return ceil_divide(f["h"] * f["w"] * f["c"], config.lanes)


def maxpool(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over every window's elements."""
    return _pool(f, config)


def avgpool(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over every window's elements."""
    return _pool(f, config)


def convert(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over the tensor."""
    return ceil_divide(f["h"] * f["w"] * f["c"], config.lanes)


def lut(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over the tensor."""
    return ceil_divide(f["h"] * f["w"] * f["c"], config.lanes)


def softmax(f: Fields, config: NpuConfig) -> Column:
    """Return three passes: the maximum, the exponentials and their sum, the quotients."""
    return SOFTMAX_PASSES * ceil_divide(f["h"] * f["w"] * f["c"], config.lanes)


def fill(f: Fields, config: NpuConfig) -> Column:
    """Return one pass of the lanes over the box."""
    return ceil_divide(f["h"] * f["w"] * f["c"], config.lanes)


def fence(f: Fields, config: NpuConfig) -> Column:
    """Return 0: waiting is the timeline's matter."""
    return np.zeros_like(f["opcode"])


def counter(f: Fields, config: NpuConfig) -> Column:
    """Return 0: the counter is read as it is issued."""
    return np.zeros_like(f["opcode"])


def end(f: Fields, config: NpuConfig) -> Column:
    """Return 0: draining is the timeline's matter."""
    return np.zeros_like(f["opcode"])


def ceil_divide(value: Column, divisor: int) -> Column:
    """Return value / divisor, rounded up."""
    return -(-value // divisor)


def _transfer(f: Fields, config: NpuConfig) -> Column:
    rates = np.array([memory.bytes_per_cycle for memory in config.memories], np.float64)
    sizes = np.array([memory.burst for memory in config.memories], np.int64)
    memory = memory_index(f, config)
    return np.ceil(bursts(f, config) * sizes[memory] / rates[memory]).astype(np.int64)


def _pool(f: Fields, config: NpuConfig) -> Column:
    return ceil_divide(f["out_h"] * f["out_w"] * f["kh"] * f["kw"] * f["c"], config.lanes)


def _fill_and_drain(config: NpuConfig) -> int:
    return config.array_rows + config.array_cols - 2


def _collect() -> dict[str, Cost]:
    """Return mnemonic -> function; ImportError where table and functions do not match."""
    module = sys.modules[__name__]
    missing = [row.mnemonic for row in INSTRUCTIONS if not hasattr(module, row.mnemonic.lower())]
    if missing:
        raise ImportError(f"instructions without a cost function: {', '.join(missing)}")
    return {row.mnemonic: getattr(module, row.mnemonic.lower()) for row in INSTRUCTIONS}


COSTS: Mapping[str, Cost] = MappingProxyType(_collect())
"""Mnemonic -> cost function: one per row of the instruction table."""

DMA_QUEUES = frozenset((Queue.LD, Queue.ST))
