"""Working arrays that the kernels reuse, one set per thread."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LOCAL = threading.local()


def array(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of this thread, its contents undefined; a name has one user at a time.

    The memory behind a name grows to the largest request and stays with the thread.
    """
    kind = np.dtype(dtype)
    size = kind.itemsize
    for count in shape:
        size *= count
    pool: dict[str, NDArray[np.uint8]] = _LOCAL.__dict__
    buffer = pool.get(name)
    if buffer is None or buffer.nbytes < size:
        buffer = pool[name] = np.zeros(max(size, 1), np.uint8)
    return np.ndarray(shape, kind, buffer)
