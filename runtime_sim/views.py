"""Typed strided windows on the machine's memories: what a command reads and what it writes.

A command's semantics, its bounds and the verifier's hazard analysis all use the same views, so a
byte the machine touches is a byte the verifier has looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.errors import CommandError
from runtime_sim.isa.fields import DType

Fields = Mapping[str, int]
"""One decoded command: field name -> value."""

SPM, ACC, DRAM = 0, 1, 2
"""Memory numbers; DRAM region r is memory DRAM + r."""
REGION_SHIFT = 40
REGIONS = 16
CONSTANTS, ARENA, FIRST_ARGUMENT = 0, 1, 2
"""Address regions: constants (read-only), arena, and from 2 on the call's arguments."""

DTYPES: Mapping[int, np.dtype[Any]] = MappingProxyType(
    {
        DType.S8: np.dtype(np.int8),
        DType.U8: np.dtype(np.uint8),
        DType.S16: np.dtype("<i2"),
        DType.S32: np.dtype("<i4"),
        DType.F32: np.dtype("<f4"),
    }
)
BYTE = np.dtype(np.uint8)
INT32 = np.dtype("<i4")


class IllegalCommand(CommandError):
    """A command breaks a rule of the instruction set."""


def memory_name(memory: int) -> str:
    """Return "SPM", "ACC" or "DRAM region N"."""
    return ("SPM", "ACC")[memory] if memory < DRAM else f"DRAM region {memory - DRAM}"


@dataclass(frozen=True, slots=True)
class View:
    """Elements of `dtype` at `offset` bytes in a memory, `shape` of them, `strides` bytes apart."""

    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def of(self, memories: Sequence[Any]) -> NDArray[Any]:
        """Return the array this view selects; `memories[n]` is the buffer of memory n."""
        return np.ndarray(self.shape, self.dtype, memories[self.memory], self.offset, self.strides)

    @property
    def extent(self) -> tuple[int, int]:
        """Return (first, last + 1) of the bytes touched; (offset, offset) if there are none."""
        if 0 in self.shape:
            return self.offset, self.offset
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0)
        return low, high + self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor operand: one view, or two along axis 0 where a ring wraps round."""

    views: tuple[View, ...]

    def read(self, memories: Sequence[Any]) -> NDArray[Any]:
        """Return the operand's elements: a window on the memory, or a copy where a ring wraps."""
        if len(self.views) == 1:
            return self.views[0].of(memories)
        return np.concatenate([view.of(memories) for view in self.views])

    def write(self, memories: Sequence[Any], value: NDArray[Any]) -> None:
        """Store `value` (of the operand's shape) into the memory."""
        first = 0
        for view in self.views:
            last = first + view.shape[0]
            view.of(memories)[...] = value[first:last]
            first = last


def ring_segments(rows: int, ring_rows: int, ring_start: int) -> list[tuple[int, int]]:
    """Return (physical row, row count) of each unbroken stretch of `rows` logical rows."""
    if ring_rows == 0:
        return [(0, rows)]
    first = min(rows, ring_rows - ring_start)
    segments = [(ring_start, first), (0, rows - first)]
    return [segment for segment in segments if segment[1]] or [(ring_start, 0)]


def tensor(
    fields: Fields, prefix: str, rows: int, columns: int, channels: int, dtype: int
) -> Operand:
    """Return the (rows, columns, channels) operand that the fields named `prefix`_* describe."""
    element = DTYPES[dtype]
    row_stride = fields[f"{prefix}_row_stride"]
    strides = (
        row_stride,
        fields[f"{prefix}_pixel_stride"],
        fields.get(f"{prefix}_channel_stride", element.itemsize),
    )
    segments = ring_segments(rows, fields[f"{prefix}_ring_rows"], fields[f"{prefix}_ring_start"])
    return Operand(
        tuple(
            View(
                SPM,
                fields[f"{prefix}_addr"] + row * row_stride,
                (count, columns, channels),
                strides,
                element,
            )
            for row, count in segments
        )
    )


def matrix(fields: Fields, prefix: str, rows: int, columns: int) -> Operand:
    """Return the (rows, columns) operand that the fields named `prefix`_* describe."""
    element = DTYPES[fields[f"{prefix}_type"]]
    strides = fields[f"{prefix}_row_stride"], fields[f"{prefix}_col_stride"]
    return Operand((View(SPM, fields[f"{prefix}_addr"], (rows, columns), strides, element),))


def vector(address: int, count: int, dtype: np.dtype[Any] = BYTE) -> Operand:
    """Return `count` contiguous elements of SPM."""
    return Operand((View(SPM, address, (count,), (dtype.itemsize,), dtype),))


def accumulator(fields: Fields, rows: int, columns: int, channels: int) -> Operand:
    """Return the (rows, columns, channels) int32 operand in ACC."""
    pixel = fields["acc_stride"] * INT32.itemsize
    strides = (columns * pixel, pixel, INT32.itemsize)
    offset = fields["acc_addr"] * INT32.itemsize
    return Operand((View(ACC, offset, (rows, columns, channels), strides, INT32),))


def dma_box(fields: Fields) -> tuple[Operand, Operand]:
    """Return the (DRAM, SPM) operands of a transfer: uint8 boxes of shape (n0, n1, n2, run)."""
    shape = (fields["n0"], fields["n1"], fields["n2"], fields["run"])
    region, offset = split_address(fields["dram"])
    sides = []
    for memory, start, prefix in (
        (DRAM + region, offset, "dram"),
        (SPM, fields["spm_addr"], "spm"),
    ):
        strides = tuple(fields[f"{prefix}_stride{i}"] for i in range(3))
        sides.append(Operand((View(memory, start, shape, (*strides, 1), BYTE),)))
    return sides[0], sides[1]


def split_address(address: int) -> tuple[int, int]:
    """Return (region, byte offset) of a DRAM address."""
    return address >> REGION_SHIFT, address & ((1 << REGION_SHIFT) - 1)
