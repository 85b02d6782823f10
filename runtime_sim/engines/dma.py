"""Semantics of the DMA queues LD and ST."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from runtime_sim.npu import NpuConfig
from runtime_sim.step import Step
from runtime_sim.views import Fields, dma_box


def load(f: Fields, config: NpuConfig) -> Step:
    """SPM box <- DRAM box, byte by byte."""
    dram, spm = dma_box(f)
    return Step((dram,), spm, _move)


def store(f: Fields, config: NpuConfig) -> Step:
    """DRAM box <- SPM box, byte by byte."""
    dram, spm = dma_box(f)
    return Step((spm,), dram, _move)


def _move(data: NDArray[Any]) -> NDArray[Any]:
    return data
