"""Read and write whole .npz files: the inputs and outputs of `vnpu run`."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tvm_vnpu.data.dataset import DataError
from tvm_vnpu.report.output_file import output_bytes

Arrays = Mapping[str, NDArray[Any]]


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all arrays of an .npz file by name. Raises DataError if it cannot be read."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise DataError(
                f"{os.fspath(path)} is an .npy file", fix="write an .npz with np.savez(name=array)"
            )
        with loaded:
            arrays = {name: loaded[name] for name in loaded.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):  # NumPy hands out other members as bytes
                raise ValueError(f"{name} is no array")
        return arrays
    except FileNotFoundError as error:
        raise DataError("no such input file", seen=os.fspath(path)) from error
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib and NumPy raise any type for a file of others
        raise DataError(
            f"cannot read {os.fspath(path)} as an .npz file",
            seen=(str(error).splitlines() or [type(error).__name__])[0],
            fix="check that the file is complete; np.savez writes one",
        ) from error


@contextmanager
def npz_file(path: str | os.PathLike[str]) -> Iterator[Callable[[Arrays], None]]:
    """Yield a function that writes arrays by name into an .npz file.

    The file is there, whole, when the block succeeds. Raises OutputError as `output_bytes`.
    """
    with output_bytes(path, "the output file") as stream:
        yield partial(_write, stream)


def write_npz(path: str | os.PathLike[str], arrays: Arrays) -> None:
    """Write arrays by name, whole or not at all. Raises OutputError as `output_bytes`."""
    with npz_file(path) as write:
        write(arrays)


def _write(stream: BinaryIO, arrays: Arrays) -> None:
    # np.savez takes names as keywords, so an array called "file" would be lost.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
