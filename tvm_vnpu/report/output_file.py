"""Write a text file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from runtime_sim.errors import VnpuError


class OutputError(VnpuError):
    """A file that cannot be written."""


@contextmanager
def output_file(path: str | os.PathLike[str], what: str) -> Iterator[TextIO]:
    """Yield a stream whose text becomes the file `path` when the block succeeds.

    Enter it before long work: a place that cannot be written to is refused at once. When the block
    fails, `path` stays as it was. `what` names the file in the message. Raises OutputError.
    """
    target = Path(path).resolve()  # a symbolic link stays one
    if target.exists() and not target.is_file():
        raise _refused(what, path, "it is a folder" if target.is_dir() else "it is a device")
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _refused(what, path, error.strerror or str(error)) from error
    stage = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        stage.chmod(0o666 & ~umask)
        stage.replace(target)
    except OSError as error:
        raise _refused(what, path, error.strerror or str(error)) from error
    finally:
        stage.unlink(missing_ok=True)


def _refused(what: str, path: str | os.PathLike[str], why: str) -> OutputError:
    return OutputError(
        f"{what} cannot be written", seen=f"{os.fspath(path)}: {why}", fix="name another file"
    )
