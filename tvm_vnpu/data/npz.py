"""An .npz file, read row by row: never the whole of it in memory."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from runtime_sim.errors import VnpuError
from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.data.dataset import SCALAR_FIX, Batch, DataError, rows_per_batch


@dataclass(frozen=True, slots=True)
class Header:
    """What an .npy header says."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]


def read_header(stream: IO[bytes], name: str) -> Header:
    """Read an .npy header; the stream is at the data afterwards. Raises DataError."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    header = Header(*read(stream))
    if header.dtype.hasobject:
        raise DataError(f"array {name!r} holds Python objects", fix="save it as numbers")
    if not header.shape:
        raise DataError(
            f"array {name!r} has no axis for the samples", seen="a scalar", fix=SCALAR_FIX
        )
    return header


@dataclass(frozen=True, slots=True)
class NpzData:
    """Arrays of one .npz file, samples along the first axis of each."""

    path: Path
    headers: dict[str, Header]
    rows: int

    @staticmethod
    def open(path: Path, inputs: Sequence[TensorSpec]) -> NpzData:
        """Read the headers. Raises DataError for a damaged file and for unequal lengths."""
        headers: dict[str, Header] = {}
        with _reading(path) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                with archive.open(member) as stream:
                    headers[name] = read_header(stream, name)
        check_lengths({name: header.shape[0] for name, header in headers.items()}, path)
        return NpzData(path, headers, rows_per_batch(inputs))

    @property
    def samples(self) -> int:
        """Return the number of rows."""
        return max((header.shape[0] for header in self.headers.values()), default=0)

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order."""
        if self.samples == 0:
            return
        with _reading(self.path) as archive, ExitStack() as stack:
            readers = {
                name: _Rows(stack.enter_context(archive.open(f"{name}.npy")), name)
                for name in self.headers
            }
            for first in range(0, self.samples, self.rows):
                count = min(self.rows, self.samples - first)
                yield {name: reader.take(count) for name, reader in readers.items()}


class _Rows:
    """Reads an array of the archive from the front, some rows at a time."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._name = stream, name
        self._header = read_header(stream, name)
        self._whole: NDArray[Any] | None = None
        self._taken = 0
        if self._header.fortran:  # rows are not contiguous there
            flat = np.frombuffer(stream.read(), self._header.dtype)
            self._whole = flat.reshape(self._header.shape, order="F")

    def take(self, count: int) -> NDArray[Any]:
        """Return the next rows."""
        if self._whole is not None:
            first, self._taken = self._taken, self._taken + count
            return np.ascontiguousarray(self._whole[first : first + count])
        shape = (count, *self._header.shape[1:])
        size = math.prod(shape) * self._header.dtype.itemsize
        data = self._stream.read(size)
        if len(data) != size:
            raise DataError(f"array {self._name!r} ends early", seen=f"{len(data)} of {size} bytes")
        return np.frombuffer(data, self._header.dtype).reshape(shape)


class _reading:
    """Opens an archive and turns what its readers raise into DataError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive: zipfile.ZipFile | None = None

    def __enter__(self) -> zipfile.ZipFile:
        try:
            self._archive = zipfile.ZipFile(self._path)
        except Exception as error:  # the same
            raise self._unreadable(error) from error
        return self._archive

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._archive is not None:
            self._archive.close()
        # zipfile, zlib and NumPy raise any type for a file that they do not expect
        if isinstance(error, Exception) and not isinstance(error, VnpuError):
            raise self._unreadable(error) from error

    def _unreadable(self, error: BaseException) -> DataError:
        return DataError(
            f"cannot read {self._path} as an .npz file",
            seen=str(error).splitlines()[0] if str(error) else type(error).__name__,
            fix="check that the file is complete; np.savez writes one",
        )


def check_lengths(lengths: dict[str, int], where: Path) -> None:
    """Raise DataError unless all arrays have the same number of samples."""
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"the arrays in {where} have different numbers of samples",
            seen=", ".join(f"{name}: {count}" for name, count in lengths.items()),
            fix="give every array the same length along axis 0",
        )
