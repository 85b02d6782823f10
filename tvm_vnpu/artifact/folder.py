"""Write an artefact folder whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_vnpu.artifact.meta import META, ArtifactError

MODEL, SOURCE, REGIONS = "model.so", "source.onnx", "regions"
_FILES = (META, MODEL, SOURCE, f"{SOURCE}.data")
_REGION_FILE = re.compile(r"vnpu\.h|region[0-9]+\.(bin|c|constants\.bin)")
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
_META_KEYS = frozenset({"format", "isa_version", "source", "npu", "regions"})


def check_output(target: Path) -> None:
    """Raise ArtifactError unless `target` can become an artefact folder.

    It must not exist yet, be empty, or be an artefact that holds nothing else; its parent must be
    writable.
    """
    try:
        _check_output(target)
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        raise _refused(target, error) from error


def _check_output(target: Path) -> None:
    if target == Path():
        raise ArtifactError(
            "the output is the current folder", seen=os.getcwd(), fix="name another folder with -o"
        )
    _lstat(target)
    if target.exists() and not target.is_dir():
        raise ArtifactError(
            "the output is a file, not a folder", seen=target, fix="name another folder with -o"
        )
    if target.is_dir():
        _check_replaceable(target)
    parent = existing_parent(target)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ArtifactError(
            "the output folder is not writable",
            seen=target,
            limit=f"{parent} can be written to",
            fix="name another folder with -o",
        )


def _lstat(target: Path) -> None:
    """Raise OSError or ValueError for a name that no file can have."""
    try:
        target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return


def _check_replaceable(folder: Path) -> None:
    """Raise ArtifactError unless replacing a folder loses nothing but an artefact."""
    if not any(folder.iterdir()):
        return
    if not _has_meta(folder):
        raise ArtifactError(
            "the output folder exists and is no artefact",
            seen=folder,
            fix="name a new folder with -o, or empty this one",
        )
    foreign = next(_foreign_entries(folder), None)
    if foreign is not None:
        raise ArtifactError(
            "the output folder holds what vnpu did not write",
            seen=foreign,
            fix="name a new folder with -o, or move it away",
        )


def _has_meta(folder: Path) -> bool:
    """Return whether meta.json is the table of an artefact, of this version or another."""
    try:
        table = json.loads((folder / META).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(table, dict) and set(table) >= _META_KEYS and type(table["format"]) is int


def _foreign_entries(folder: Path) -> Iterator[Path]:
    """Yield what lies in an artefact folder and is no part of an artefact."""
    for path in sorted(folder.iterdir()):
        if path.name == REGIONS and path.is_dir() and not path.is_symlink():
            yield from (
                entry
                for entry in sorted(path.iterdir())
                if not _is_plain(entry) or _REGION_FILE.fullmatch(entry.name) is None
            )
        elif not _is_plain(path) or path.name not in _FILES:
            yield path


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def existing_parent(target: Path) -> Path:
    """Return the nearest parent that exists."""
    parent = target.absolute().parent
    while not parent.exists() and parent != parent.parent:
        parent = parent.parent
    return parent


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `target` that becomes `target` when the block succeeds.

    When it fails, the folder goes away and `target` stays as it was. Raises ArtifactError as
    `check_output`, where the disk refuses, and for any other OSError of the block.
    """
    check_output(target)
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=".vnpu-", dir=target.parent))
    except OSError as error:
        raise _refused(target, error) from error
    try:
        yield stage
        check_output(target)  # the compilation was long
        _replace(stage, target)
    except OSError as error:
        if error.errno not in _DISK_ERRORS and not str(error.filename or "").startswith(str(stage)):
            raise _unusable(error) from error
        raise _refused(target, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _unusable(error: OSError) -> ArtifactError:
    return ArtifactError(
        "compiling needs a file or folder that cannot be used",
        seen=error,
        fix="check TMPDIR and the C compiler",
    )


def _refused(target: Path, error: OSError | ValueError) -> ArtifactError:
    return ArtifactError(
        "the output folder cannot be written",
        seen=f"{_shown(target)}: {getattr(error, 'strerror', None) or error}",
        fix="name another folder with -o",
    )


def _shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else repr(str(path))


def _replace(stage: Path, target: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    stage.chmod(0o777 & ~umask)
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=".vnpu-", dir=target.parent))
        target.rename(old / "old")
    try:
        stage.rename(target)
    except OSError:
        if old is not None:
            (old / "old").rename(target)
            old.rmdir()
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
