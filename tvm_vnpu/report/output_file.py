"""Write a file whole or not at all."""

from __future__ import annotations

import io
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO

from runtime_sim.errors import VnpuError


class OutputError(VnpuError):
    """A file that cannot be written."""


@contextmanager
def output_file(path: str | os.PathLike[str], what: str) -> Iterator[TextIO]:
    """Yield a stream whose text becomes the file `path` when the block succeeds.

    Otherwise as `output_bytes`.
    """
    with output_bytes(path, what) as raw:
        stream = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield stream
        stream.flush()


@contextmanager
def output_bytes(path: str | os.PathLike[str], what: str) -> Iterator[BinaryIO]:
    """Yield a stream whose bytes become the file `path` when the block succeeds.

    Enter it before long work: a place that cannot be written to is refused at once. When the block
    fails, `path` stays as it was; a symbolic link stays one. `what` names the file in the message.
    Raises OutputError for a name that no file can have, a folder, a device, and where the disk
    refuses.
    """
    try:
        target = _target(path, what)
        descriptor, name = tempfile.mkstemp(prefix=".vnpu-", dir=target.parent)
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        raise _refused(what, path, error) from error
    stage = Path(name)
    try:
        with open(descriptor, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o666 & ~umask)
        stage.replace(target)
    except OSError as error:
        raise _refused(what, path, error) from error
    finally:
        stage.unlink(missing_ok=True)


def _target(path: str | os.PathLike[str], what: str) -> Path:
    """Return the file that a path leads to. Raises OSError, ValueError or OutputError."""
    if not os.fspath(path):
        raise _refused(what, path, "the name is empty")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode):
        raise _refused(what, path, "it is a folder" if stat.S_ISDIR(mode) else "it is a device")
    return Path(path).resolve()


def _refused(
    what: str, path: str | os.PathLike[str], why: OSError | ValueError | str
) -> OutputError:
    text = getattr(why, "strerror", None) or str(why)
    name = os.fspath(path)
    shown = name if name.isprintable() and name else repr(name)
    return OutputError(
        f"{what} cannot be written", seen=f"{shown}: {text}", fix="name another file"
    )
