"""A folder of .npy files: one array per input, or one file per sample."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.data.dataset import LABELS, SCALAR_FIX, Batch, DataError, DataSet, rows_per_batch
from tvm_vnpu.data.npz import check_lengths


def open_npy_folder(folder: Path, inputs: Sequence[TensorSpec]) -> DataSet:
    """Return the data of a folder of .npy files.

    Where the files are called after the inputs (characters a file name cannot hold as `_`), each
    holds all samples of its input; `labels.npy` may be there too. Otherwise each file, in order of
    name, is one sample or batch of a model with one input. Raises DataError.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.npy"))}
    names = {re.sub(r"[^\w.-]", "_", spec.name): spec.name for spec in inputs}
    if set(names) <= set(files):
        arrays = {names.get(stem, stem): _load(path) for stem, path in files.items()}
        check_lengths({name: len(array) for name, array in arrays.items()}, folder)
        return ArrayData(arrays, rows_per_batch(inputs))
    if len(inputs) != 1:
        missing = next(stem for stem in names if stem not in files)
        raise DataError(
            f"folder {folder} has no array for an input",
            seen=", ".join(files),
            limit=", ".join(f"{stem}.npy" for stem in names),
            fix=f"add {missing}.npy",
        )
    return SampleFiles(tuple(files.values()), inputs[0])


def _load(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # NumPy raises any type for a file that it does not expect
        raise DataError(
            f"cannot read {path}",
            seen=str(error).splitlines()[0] if str(error) else type(error).__name__,
            fix="check that the file is complete; np.save writes one",
        ) from error
    if array.ndim == 0:
        raise DataError(
            f"array {path} has no axis for the samples", seen="a scalar", fix=SCALAR_FIX
        )
    return array


@dataclass(frozen=True, slots=True)
class ArrayData:
    """Arrays with the samples along axis 0; memory-mapped ones are read as they are needed."""

    arrays: dict[str, NDArray[Any]]
    rows: int

    @property
    def samples(self) -> int:
        """Return the number of rows."""
        return max((len(array) for array in self.arrays.values()), default=0)

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order."""
        for first in range(0, self.samples, self.rows):
            yield {
                name: np.array(array[first : first + self.rows])
                for name, array in self.arrays.items()
            }


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """One file per sample, with or without the batch axis."""

    files: tuple[Path, ...]
    spec: TensorSpec

    @property
    def samples(self) -> int | None:
        """Return None: a file may hold several rows."""
        return None

    def batches(self) -> Iterator[Batch]:
        """Yield the files in order of their names."""
        for path in self.files:
            if path.stem == LABELS:
                raise DataError(
                    f"{path} has labels, but the samples are in files of their own",
                    fix=f"put all samples into {self.spec.name}.npy, or use an .npz file",
                )
            array = np.array(_load(path))
            whole = array.ndim == len(self.spec.shape)
            yield {self.spec.name: array if whole else array[np.newaxis]}
