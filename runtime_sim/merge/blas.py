"""BLAS on one thread a call, while the machine's own threads share out the work.

NumPy's wheels carry OpenBLAS, whose threads wait for one another busily: on shared cores a product
of 50 microseconds can then take milliseconds. Where its controls are not found nothing changes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads",
          "openblas_{}_num_threads64_", "openblas_{}_num_threads")  # fmt: skip
_LOCK = threading.Lock()
_USERS = 0
_BEFORE = 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS on one thread within the block; the last to leave restores what was set before."""
    global _USERS, _BEFORE
    controls = _controls()
    if controls is None:
        yield
        return
    read, write = controls
    with _LOCK:
        if _USERS == 0:
            _BEFORE = read()
            write(1)
        _USERS += 1
    try:
        yield
    finally:
        with _LOCK:
            _USERS -= 1
            if _USERS == 0:
                write(_BEFORE)


@lru_cache(maxsize=1)
def _controls() -> tuple[Callable[[], int], Callable[[int], None]] | None:
    """Return the functions that read and set OpenBLAS's number of threads; None if not found."""
    folder = Path(np.__file__).parent
    for place in (folder.parent / "numpy.libs", folder / ".dylibs"):
        for path in sorted(place.glob("*openblas*")):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue
            for name in _NAMES:
                read = getattr(library, name.format("get"), None)
                write = getattr(library, name.format("set"), None)
                if read is not None and write is not None:
                    return read, write
    return None
