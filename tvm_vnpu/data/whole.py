"""Read and write whole .npz files: the inputs and outputs of `vnpu run`."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_vnpu.data.dataset import DataError


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all arrays of an .npz file by name. Raises DataError if it cannot be read."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise DataError(
                f"{os.fspath(path)} is an .npy file", fix="write an .npz with np.savez(name=array)"
            )
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError as error:
        raise DataError("no such input file", seen=os.fspath(path)) from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"cannot read {os.fspath(path)} as an .npz file",
            seen=(str(error).splitlines() or [type(error).__name__])[0],
            fix="check that the file is complete; np.savez writes one",
        ) from error


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, whole or not at all. Raises DataError if the file cannot be written."""
    target = Path(path).absolute()
    stage = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=target.parent, prefix=f".{target.name}.", suffix=".npz", delete=False
        ) as stream:
            stage = Path(stream.name)
            _write(stream, arrays)
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o666 & ~umask)
        stage.replace(target)
    except OSError as error:
        raise DataError(
            "the output file cannot be written",
            seen=f"{path}: {error.strerror or error}",
            fix="name another file with --output",
        ) from error
    finally:
        if stage is not None:
            stage.unlink(missing_ok=True)


def _write(stream: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    # np.savez takes names as keywords, so an array called "file" would be lost.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
