"""The total cycles of many streams at once: in C where there is a compiler, else in Python.

The timeline is a recurrence over commands that NumPy cannot take at once; in Python it was a third
of the time of a measurement. Tests hold both equal to the timeline.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codegen.compile_c import CompilerError, load_shared
from runtime_sim.isa.fields import Queue
from runtime_sim.isa.table import SEMAPHORES
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import Work
from runtime_sim.total_cycles import not_causal, total_cycles

_log = logging.getLogger(__name__)

_SOURCE = Path(__file__).with_name("total_cycles.c")
_COLUMNS = ("queue", "issue", "cycles", "memory", "drains", "wait", "post")
_NOT_CAUSAL = 1
_Pointer = ctypes.POINTER(ctypes.c_int64)


class _Work(ctypes.Structure):
    _fields_ = [(name, _Pointer) for name in _COLUMNS]


class _Npu(ctypes.Structure):
    _fields_ = [
        ("queue_depth", ctypes.c_int64),
        ("memories", ctypes.c_int64),
        ("latency", _Pointer),
    ]


def totals(work: Work, ends: Sequence[int], config: NpuConfig) -> list[int]:
    """Return `total_cycles` of each stream; stream k is the commands [ends[k - 1], ends[k]).

    Raises TimingError as `total_cycles`.
    """
    library = _library()
    if library is None:
        pairs = zip([0, *ends], ends, strict=False)
        return [total_cycles(work.part(first, last), config) for first, last in pairs]
    latency = np.array([memory.latency for memory in config.memories], np.int64)
    found, limits = np.zeros(len(ends), np.int64), np.array(ends, np.int64)
    # The pointers do not keep alive what they point to.
    columns = [np.ascontiguousarray(getattr(work, name), np.int64) for name in _COLUMNS]
    commands = _Work(*map(_pointer, columns))
    npu = _Npu(config.queue_depth, len(latency), _pointer(latency))
    status = library.vnpu_totals(
        ctypes.byref(commands), ctypes.c_int64(len(ends)), _pointer(limits),
        ctypes.byref(npu), _pointer(found),
    )  # fmt: skip
    if status:
        raise not_causal() if status == _NOT_CAUSAL else MemoryError("no memory for a timeline")
    return found.tolist()


def _pointer(column: NDArray[np.int64]) -> ctypes._Pointer[ctypes.c_int64]:
    return column.ctypes.data_as(_Pointer)


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """Return the compiled recurrence; None where it cannot be compiled or loaded."""
    flags = (
        "-O2", f"-DQUEUES={len(Queue)}", f"-DCTRL={int(Queue.CTRL)}", f"-DSEMAPHORES={SEMAPHORES}",
    )  # fmt: skip
    try:
        return load_shared(_SOURCE.read_text(encoding="utf-8"), flags)
    except (CompilerError, OSError) as error:
        _log.info("totals of timelines are worked out in Python: %s", error)
        return None
