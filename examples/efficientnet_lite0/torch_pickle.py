"""Read the tensors of a legacy PyTorch checkpoint with NumPy alone.

The file (PyTorch before 1.6) is a magic number, a protocol version, system facts, the pickled
state, a list of storage keys, and then each storage: an int64 count and raw little-endian data.
"""

from __future__ import annotations

import collections
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
STORAGES = {"FloatStorage": "<f4", "LongStorage": "<i8", "IntStorage": "<i4", "HalfStorage": "<f2"}


class _Reader(pickle.Unpickler):
    """Rebuilds nothing but ordered dicts of tensor descriptions; any other class is refused."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.dtypes: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return _describe
        if module == "torch" and name in STORAGES:
            return name
        raise pickle.UnpicklingError(f"refused {module}.{name}: a checkpoint holds tensors only")

    def persistent_load(self, pid: Any) -> str:
        _, storage, key, *_ = pid
        self.dtypes[key] = STORAGES[storage]
        return str(key)


def _describe(key: str, offset: int, size: Any, stride: Any, *_: Any) -> tuple[Any, ...]:
    return key, offset, tuple(size), tuple(stride)


def load_checkpoint(path: Path) -> dict[str, np.ndarray]:
    """Return name -> array of a checkpoint. Raises ValueError for a file of another kind."""
    with path.open("rb") as file:
        if pickle.load(file) != MAGIC or pickle.load(file) != PROTOCOL:
            raise ValueError(f"{path} is not a legacy PyTorch checkpoint")
        pickle.load(file)
        reader = _Reader(file)
        state = reader.load()
        storages = {key: _storage(file, reader.dtypes[key]) for key in pickle.load(file)}
    return {name: _tensor(storages, *entry) for name, entry in state.items()}


def _storage(file: IO[bytes], dtype: str) -> np.ndarray:
    count = int(np.frombuffer(file.read(8), "<i8")[0])
    return np.frombuffer(file.read(count * np.dtype(dtype).itemsize), dtype)


def _tensor(
    storages: dict[str, np.ndarray], key: str, offset: int, size: Any, stride: Any
) -> np.ndarray:
    data = storages[key]
    strides = [step * data.itemsize for step in stride]
    view: Callable[..., np.ndarray] = np.lib.stride_tricks.as_strided
    return view(data[offset:], size, strides).copy()
