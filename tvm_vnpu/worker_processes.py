"""Worker processes of this machine; imports nothing heavy, since each of them begins here."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def new_pool(count: int) -> ProcessPoolExecutor:
    """Return `count` processes that start afresh, as the work given to them arrives."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=_start)


def _start() -> None:
    """Let an interrupt end the process at once: the parent reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
