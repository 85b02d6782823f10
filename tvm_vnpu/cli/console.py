"""The one place that writes: results to stdout, progress and notes to stderr."""

from __future__ import annotations

import json
import os
import sys
from types import TracebackType
from typing import Any

from tqdm import tqdm

from runtime_sim.errors import VnpuError

_SILENT_SECONDS = 2.0


class Console:
    """Output of one command; `json_mode` leaves stdout to `result`."""

    def __init__(self, json_mode: bool = False) -> None:
        """Start without a progress bar."""
        self.json_mode = json_mode
        self._bar: Any = None
        self._stage = ""

    def __enter__(self) -> Console:
        """Return the console itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the progress bar away."""
        self._close()

    def result(self, text: str, values: Any) -> None:
        """Print a command's result: `text` for people, or `values` as JSON."""
        self._close()
        if self.json_mode:
            text = json.dumps(values, indent=1, default=_plain)
        _write(text + "\n")

    def progress(self, stage: str, done: int, total: int | None, note: str = "") -> None:
        """Show how far a stage is: at once on a terminal, elsewhere after two seconds.

        `note` stands behind the bar.
        """
        if self.json_mode:
            return
        if stage != self._stage:
            self._close()
            self._stage, self._bar = stage, _new_bar(stage, total)
        if note:
            self._bar.set_postfix_str(note, refresh=False)
        self._bar.update(done - self._bar.n)
        if total is not None and done >= total:
            self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar, self._stage = None, ""


def _new_bar(stage: str, total: int | None) -> Any:
    terminal = sys.stderr.isatty()
    return tqdm(
        desc=stage,
        total=total,
        file=sys.stderr,
        leave=not terminal,
        delay=0 if terminal else _SILENT_SECONDS,
        mininterval=0.1 if terminal else 10.0,
    )


def _write(text: str) -> None:
    """Write to stdout. Raises VnpuError where it is closed or full."""
    if sys.stdout is None:  # closed before Python started
        raise _stdout_error("it is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:  # ValueError: the stream is closed, or of another coding
        drop_stdout()
        raise _stdout_error(getattr(error, "strerror", None) or str(error)) from error


def _stdout_error(why: str) -> VnpuError:
    return VnpuError("the result cannot be written to stdout", seen=why)


def drop_stdout() -> None:
    """Send what is left to nowhere, so that Python does not fail when it flushes at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # it is no file, or one that is closed
        return


def _plain(value: Any) -> Any:
    """Turn NumPy values into JSON ones."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")
