"""Write an artefact folder whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_vnpu.artifact.meta import META, ArtifactError


def check_output(target: Path) -> None:
    """Raise ArtifactError unless `target` can become an artefact folder.

    It must not exist yet, be empty, or be an artefact already; its parent must be writable.
    """
    if target.exists() and not target.is_dir():
        raise ArtifactError(
            "the output is a file, not a folder", seen=target, fix="name another folder with -o"
        )
    if target.is_dir() and not _is_ours(target):
        raise ArtifactError(
            "the output folder exists and is no artefact",
            seen=target,
            fix="name a new folder with -o, or empty this one",
        )
    parent = existing_parent(target)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ArtifactError(
            "the output folder is not writable",
            seen=target,
            limit=f"{parent} can be written to",
            fix="name another folder with -o",
        )


def _is_ours(folder: Path) -> bool:
    return (folder / META).is_file() or not any(folder.iterdir())


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
    `check_output`, and where the disk refuses.
    """
    check_output(target)
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise _refused(target, error) from error
    try:
        yield stage
        _replace(stage, target)
    except OSError as error:
        raise _refused(target, error) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _refused(target: Path, error: OSError) -> ArtifactError:
    return ArtifactError(
        "the output folder cannot be written",
        seen=f"{target}: {error.strerror or error}",
        fix="name another folder with -o",
    )


def _replace(stage: Path, target: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    stage.chmod(0o777 & ~umask)
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        target.rename(old / "old")
    try:
        stage.rename(target)
    except OSError:
        if old is not None:
            (old / "old").rename(target)
        raise
    finally:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
