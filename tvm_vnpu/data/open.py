"""Open DATA, whichever form it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.data.dataset import DataError, DataSet
from tvm_vnpu.data.function import FunctionData
from tvm_vnpu.data.images import SUFFIXES, ImageData, ImageOptions
from tvm_vnpu.data.npy_folder import open_npy_folder
from tvm_vnpu.data.npz import NpzData

FORMS = "an .npz file, a folder of .npy files or of images, or module:function"
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def open_data(
    text: str, inputs: Sequence[TensorSpec], images: ImageOptions | None = None
) -> DataSet:
    """Return the data set that `text` names, for a model with these inputs.

    Raises DataError for one that is missing, unreadable or of no known form.
    """
    data = _open(text, inputs, images or ImageOptions())
    if images is not None and images.given and not isinstance(data, ImageData):
        raise DataError(
            f"--{images.given[0]} goes with a folder of images", seen=text, fix="leave it out"
        )
    return data


def _open(text: str, inputs: Sequence[TensorSpec], images: ImageOptions) -> DataSet:
    path = Path(text)
    if path.is_dir():
        return _open_folder(path, inputs, images)
    if path.is_file():
        if path.suffix != ".npz":
            raise DataError("cannot read the data", seen=text, limit=FORMS)
        return NpzData.open(path, inputs)
    if _FUNCTION.fullmatch(text):
        return FunctionData(text)
    raise DataError("no such data", seen=text, limit=FORMS, fix="check the path")


def _open_folder(path: Path, inputs: Sequence[TensorSpec], images: ImageOptions) -> DataSet:
    if any(path.glob("*.npy")):
        return open_npy_folder(path, inputs)
    files = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
    if not files:
        raise DataError(
            "the data folder holds neither .npy files nor images",
            seen=path,
            limit=f"*.npy, or {' '.join(SUFFIXES)}",
        )
    return ImageData.open(files, inputs, images)
