"""DRAM traffic of DMA commands: contiguous runs, and the whole bursts that they touch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from runtime_sim.npu import NpuConfig
from runtime_sim.views import REGION_SHIFT

Column = NDArray[np.int64]
Fields = Mapping[str, Column]


def memory_index(f: Fields, config: NpuConfig) -> Column:
    """Return which of the configuration's memories each DMA command uses."""
    return np.array(config.region_memory, np.int64)[f["dram"] >> REGION_SHIFT]


def useful_bytes(f: Fields) -> Column:
    """Return the bytes each DMA command moves."""
    return f["n0"] * f["n1"] * f["n2"] * f["run"]


def merged_runs(f: Fields) -> tuple[list[Column], list[Column], Column]:
    """Return (counts, strides, run) of each box after merging runs that touch in DRAM.

    A dimension whose stride equals the run inside it lengthens that run and gets the count 1.
    """
    run, whole = f["run"].copy(), np.ones(len(f["run"]), bool)
    counts = [f[f"n{i}"].copy() for i in range(3)]
    strides = [f[f"dram_stride{i}"] for i in range(3)]
    for i in (2, 1, 0):
        merges = whole & (counts[i] > 1) & (strides[i] == run)
        whole &= merges | (counts[i] == 1)
        run = np.where(merges, run * counts[i], run)
        counts[i] = np.where(merges, 1, counts[i])
    return counts, strides, run


def bursts(f: Fields, config: NpuConfig) -> Column:
    """Return how many bursts each DMA command transfers.

    Every contiguous run takes all the bursts it touches, aligned to the memory's burst size.
    """
    sizes = np.array([memory.burst for memory in config.memories], np.int64)
    size = sizes[memory_index(f, config)]
    counts, strides, run = merged_runs(f)
    phase = (f["dram"] & ((1 << REGION_SHIFT) - 1)) % size
    steps = [np.where(n == 1, 0, s % size) for n, s in zip(counts, strides, strict=True)]
    total = counts[0] * counts[1] * counts[2] * _touched(phase, run, size)
    uneven = np.flatnonzero(steps[0] | steps[1] | steps[2])
    if uneven.size:
        rows = np.stack([*counts, *steps, phase, run, size], axis=1)[uneven]
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        each = np.array([_enumerate(*row) for row in distinct.tolist()], np.int64)
        total[uneven] = each[inverse.reshape(-1)]
    return total


def _touched(phase: Column, run: Column | int, size: Column | int) -> Column:
    return (phase + run - 1) // size + 1


def _enumerate(
    n0: int, n1: int, n2: int, s0: int, s1: int, s2: int, phase: int, run: int, size: int
) -> int:
    """Return the bursts of one box whose runs start at different places within a burst."""
    steps = (np.arange(n, dtype=np.int64) * s for n, s in ((n0, s0), (n1, s1), (n2, s2)))
    i, j, k = np.ix_(*steps)
    return int(_touched((phase + i + j + k) % size, run, size).sum())
