"""Read a PyTorch checkpoint of the old, unzipped format without PyTorch.

The file is four pickles (magic number, protocol, system, tensors), a pickled list of storage keys
and the storages themselves, each as a count and its raw elements. Only the few names that describe
tensors are let through the unpickler.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

_MAGIC = 0x1950A86A20F9469CFC6C
_STORAGES = {"FloatStorage": "<f4", "LongStorage": "<i8", "IntStorage": "<i4"}


@dataclass(frozen=True)
class _TensorParts:
    """A tensor as the pickle describes it: where it lies in which storage."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild(
    storage: str, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any
) -> _TensorParts:
    return _TensorParts(storage, offset, shape, strides)


class _Unpickler(pickle.Unpickler):
    """Builds descriptions of tensors and refuses everything else."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.dtypes: dict[str, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of a name that tensors need; UnpicklingError for any other."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        raise pickle.UnpicklingError(f"a checkpoint of tensors does not need {module}.{name}")

    def persistent_load(self, pid: Any) -> str:
        """Note a storage's element type and return its key."""
        _, dtype, key, *_ = pid
        self.dtypes[key] = dtype
        return str(key)


def read_checkpoint(path: Path) -> dict[str, NDArray[Any]]:
    """Return the tensors of a checkpoint by name.

    Raises ValueError if the file is no such checkpoint, UnpicklingError if it holds other objects.
    """
    with path.open("rb") as file:
        if _Unpickler(file).load() != _MAGIC:
            raise ValueError(f"{path.name} is not a PyTorch checkpoint of the unzipped format")
        for _ in ("protocol", "system"):
            _Unpickler(file).load()
        reader = _Unpickler(file)
        tensors = reader.load()
        storages = {key: _read_storage(file, reader.dtypes[key]) for key in _Unpickler(file).load()}
    return {name: _tensor(parts, storages[parts.storage]) for name, parts in tensors.items()}


def _read_storage(file: BinaryIO, dtype: str) -> NDArray[Any]:
    count = int.from_bytes(file.read(8), "little")
    return np.frombuffer(file.read(count * np.dtype(dtype).itemsize), dtype)


def _tensor(parts: _TensorParts, storage: NDArray[Any]) -> NDArray[Any]:
    strides = tuple(stride * storage.itemsize for stride in parts.strides)
    window = np.lib.stride_tricks.as_strided(storage[parts.offset :], parts.shape, strides)
    return window.copy()
