"""Semantics of every instruction, looked up by mnemonic."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from runtime_sim.engines import control, dma, matrix, vector
from runtime_sim.isa.fields import Queue
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.step import Semantics

_HOMES: Mapping[Queue, ModuleType] = MappingProxyType(
    {
        Queue.LD: dma,
        Queue.ST: dma,
        Queue.MX: matrix,
        Queue.VX: vector,
        Queue.CTRL: control,
    }
)


def _collect() -> dict[str, Semantics]:
    """Return mnemonic -> function; ImportError names a row of the table that has none."""
    found = {}
    for row in INSTRUCTIONS:
        function = getattr(_HOMES[row.queue], row.mnemonic.lower(), None)
        if function is None:
            home = _HOMES[row.queue].__name__
            raise ImportError(f"instruction {row.mnemonic} has no semantics function in {home}")
        found[row.mnemonic] = function
    return found


SEMANTICS: Mapping[str, Semantics] = MappingProxyType(_collect())
"""Mnemonic -> semantics function: one per row of the instruction table."""
