"""What a command computes, as an expression over DRAM: the vocabulary of the merging passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from runtime_sim.templates import Template
from runtime_sim.views import View

Strides = tuple[int, ...]


@dataclass(slots=True)
class Source:
    """Elements in DRAM, read by position `since` in the stream at the earliest.

    A stride is 0 where the count is 1. `stages` are CONVERT templates applied to each element, in
    order.
    """

    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: Strides
    dtype: np.dtype[Any]
    since: int
    stages: tuple[Template, ...] = ()

    @property
    def item(self) -> int:
        """Return the bytes of one element."""
        return self.dtype.itemsize


@dataclass(slots=True)
class Load:
    """Bytes of SPM that a LOAD copied: where they begin in SPM and in DRAM."""

    position: int
    template: Template
    spm: int
    dram: int


@dataclass(slots=True)
class Value:
    """What one command computed from sources and earlier values.

    `place` is the view written, at `offset`. `inputs` are tensors by output position, `tables` are
    one-dimensional: weights, zero points, records. A CONV or DWCONV that accumulates has the sum so
    far as its last input.
    """

    template: Template
    place: View
    offset: int
    inputs: tuple[Source | Value, ...]
    tables: tuple[Source, ...]


@dataclass(slots=True)
class Opaque:
    """Bytes that were computed in a way the passes do not follow."""

    position: int


Definition = Load | Value | Opaque


@dataclass(slots=True)
class Tile:
    """A value that a STORE puts into DRAM at `out`: the unit that merging works on."""

    position: int
    value: Value
    out: Source
