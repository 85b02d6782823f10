"""The meaning of one command: the operands it reads and writes, and the function between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from runtime_sim.npu import NpuConfig
from runtime_sim.views import Fields, Operand


@dataclass(frozen=True, slots=True)
class Step:
    """write <- compute(*reads). `compute` is pure and returns an array of the result's shape."""

    reads: tuple[Operand, ...]
    write: Operand
    compute: Callable[..., NDArray[Any]]


Semantics = Callable[[Fields, NpuConfig], "Step | None"]
"""Builds the step of a decoded command; None for a command that moves no data."""
