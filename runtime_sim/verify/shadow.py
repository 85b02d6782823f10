"""Shadow memories: for every byte, the last write and the last read by each queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.isa.fields import Queue
from runtime_sim.plan import Planned
from runtime_sim.verify.errors import fault
from runtime_sim.verify.order import Clock
from runtime_sim.views import View, memory_name


@dataclass(frozen=True, slots=True)
class Box:
    """Units (bytes, or whole ACC elements) of a memory: an offset, counts and strides."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the box of a 1-D array that has one entry a unit."""
        size = array.itemsize
        steps = tuple(stride * size for stride in self.strides)
        return np.ndarray(self.shape, array.dtype, array, self.offset * size, steps)

    def address(self, flat: int) -> int:
        """Return the unit at position `flat` of the box in C order."""
        index = np.unravel_index(flat, self.shape)
        return self.offset + sum(int(i) * s for i, s in zip(index, self.strides, strict=True))


def box(view: View, unit: int) -> Box | None:
    """Return `view` in units of `unit` bytes, contiguous dimensions merged; None if empty."""
    if 0 in view.shape:
        return None
    shape, strides = [view.dtype.itemsize // unit], [1]
    for count, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        step = stride // unit
        if count == 1:
            continue
        if step == shape[0] * strides[0]:
            shape[0] *= count
        else:
            shape.insert(0, count)
            strides.insert(0, step)
    return Box(view.offset // unit, tuple(shape), tuple(strides))


class Shadow:
    """What is known of one memory: bytes written, last write and last read of each queue."""

    def __init__(
        self,
        size: int,
        unit: int,
        writers: tuple[Queue, ...],
        readers: tuple[Queue, ...],
        written: bool = False,
    ) -> None:
        """Cover `size` bytes in units of `unit`; only the queues named touch this memory."""
        units = size // unit
        self.unit = unit
        self.peak = 0
        self.written: NDArray[np.bool_] = np.full(units, written, np.bool_)
        self._write = {queue: np.zeros(units, np.int32) for queue in writers}
        self._read = {queue: np.zeros(units, np.int32) for queue in readers}
        self._newest: dict[tuple[str, Queue], int] = {}

    def read(self, command: Planned, view: View, clock: Clock, position: int) -> None:
        """Check and record a read: bytes written before, and every write to them done."""
        where = box(view, self.unit)
        if where is None:
            return
        self._seen(view)
        written = where.of(self.written)
        if not written.all():
            address = where.address(int(np.argmin(written)))
            raise fault(
                "reads_written_bytes",
                command,
                f"reads {memory_name(view.memory)} that was never written",
                self._place(address),
            )
        self._ordered(command, view, where, clock, "write", "reads")
        self._mark("read", command, where, position)

    def write(self, command: Planned, view: View, clock: Clock, position: int) -> None:
        """Check and record a write: every earlier read and write of these bytes done."""
        where = box(view, self.unit)
        if where is None:
            return
        self._seen(view)
        self._ordered(command, view, where, clock, "write", "overwrites")
        self._ordered(command, view, where, clock, "read", "overwrites")
        where.of(self.written)[...] = True
        self._mark("write", command, where, position)

    def _ordered(
        self, command: Planned, view: View, where: Box, clock: Clock, kind: str, verb: str
    ) -> None:
        """Conflicting accesses by different queues are ordered by semaphores or a fence."""
        own = command.row.queue
        for queue, positions in (self._write if kind == "write" else self._read).items():
            if queue == own or self._newest.get((kind, queue), 0) <= clock[queue]:
                continue
            touched = where.of(positions)
            newest = int(touched.max())
            if newest > clock[queue]:
                address = where.address(int(np.argmax(touched)))
                raise fault(
                    "accesses_ordered",
                    command,
                    f"{verb} {memory_name(view.memory)} before {queue.name} command "
                    f"{newest} has certainly {'written' if kind == 'write' else 'read'} it",
                    self._place(address),
                    f"{queue.name} is known to have done {clock[queue]}",
                )

    def _mark(self, kind: str, command: Planned, where: Box, position: int) -> None:
        arrays = self._write if kind == "write" else self._read
        where.of(arrays[command.row.queue])[...] = position
        self._newest[kind, command.row.queue] = position

    def _seen(self, view: View) -> None:
        self.peak = max(self.peak, view.extent[1])

    def _place(self, unit: int) -> str:
        return f"byte 0x{unit:x}" if self.unit == 1 else f"element {unit}"


def overlap_free(views: tuple[View, ...]) -> bool:
    """Tell whether no two elements of a written operand share a byte."""
    if len(views) == 1 and _nested(views[0]):
        return True
    low = min(view.extent[0] for view in views)
    marks = np.zeros(max(view.extent[1] for view in views) - low, np.uint8)
    total = 0
    for view in views:
        mark(marks, view, low)
        total += int(np.prod(view.shape)) * view.dtype.itemsize
    return int(marks.sum()) == total


def mark(marks: NDArray[np.uint8], view: View, low: int) -> None:
    """Set the entries of `marks` (whose first stands for byte `low`) that `view` covers."""
    where = box(view, 1)
    if where is not None:
        Box(where.offset - low, where.shape, where.strides).of(marks)[...] = 1


def _nested(view: View) -> bool:
    """Tell whether each dimension, by falling stride, steps over all of the inner ones."""
    span = view.dtype.itemsize
    dims = [(abs(s), n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1]
    for stride, count in sorted(dims):
        if stride < span:
            return False
        span = stride * (count - 1) + span
    return True


def shares_bytes(a: View, b: View) -> bool:
    """Tell whether two views have a byte in common."""
    (a_low, a_high), (b_low, b_high) = a.extent, b.extent
    if a.memory != b.memory or a_high <= b_low or b_high <= a_low:
        return False
    low, high = min(a_low, b_low), max(a_high, b_high)
    first, second = np.zeros(high - low, np.uint8), np.zeros(high - low, np.uint8)
    mark(first, a, low)
    mark(second, b, low)
    return bool(np.any(first & second))
