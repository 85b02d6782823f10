"""module:function, a Python function that yields batches."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from runtime_sim.errors import VnpuError
from tvm_vnpu.data.dataset import Batch, DataError

_END = object()
_WANTED = "yield dicts from input names to arrays"


@dataclass(frozen=True, slots=True)
class FunctionData:
    """Batches from `module:function`; modules in the current folder are found too."""

    text: str

    @property
    def samples(self) -> int | None:
        """Return None: nobody knows before the function ends."""
        return None

    def batches(self) -> Iterator[Batch]:
        """Yield what the function yields.

        Raises DataError for what is no dict of arrays by name, and for anything the user's code
        raises: it names the exception and the line.
        """
        iterator = self._guarded(lambda: iter(self._called(self._function())))
        while (batch := self._guarded(lambda: next(iterator, _END))) is not _END:
            self._check(batch)
            yield batch

    def _guarded(self, code: Callable[[], Any]) -> Any:
        """Run a piece of the user's code; what it prints goes to stderr, as stdout is ours."""
        try:
            with contextlib.redirect_stdout(sys.stderr):
                return code()
        except VnpuError:
            raise
        except (Exception, SystemExit) as error:
            raise DataError(
                f"{self.text} fails", seen=_described(error), fix="correct the Python code"
            ) from error

    def _function(self) -> Callable[[], Any]:
        module_name, name = self.text.split(":")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            function = getattr(importlib.import_module(module_name), name)
        except (ImportError, AttributeError) as error:
            raise DataError(
                f"cannot find the function {self.text}", seen=error, fix="check PYTHONPATH"
            ) from error
        if not callable(function):
            raise DataError(f"{self.text} is no function", seen=type(function).__name__)
        return function

    def _called(self, function: Callable[[], Any]) -> Iterable[Any]:
        result = function()
        if isinstance(result, dict) or not isinstance(result, Iterable):
            raise DataError(
                f"{self.text} returns something other than batches", seen=type(result).__name__,
                fix=_WANTED,
            )  # fmt: skip
        return result

    def _check(self, batch: object) -> None:
        what, seen = "", ""
        if not isinstance(batch, dict):
            what, seen = "something other than a dict", type(batch).__name__
        else:
            for name, array in batch.items():
                if not isinstance(name, str):
                    what, seen = "a dict whose keys are no names", repr(name)
                elif not isinstance(array, np.ndarray):
                    what, seen = f"no array for {name!r}", type(array).__name__
        if what:
            raise DataError(f"{self.text} yields {what}", seen=seen, fix=_WANTED)


def _described(error: BaseException) -> str:
    """Return type, first line of the message, and the place of an exception of user code."""
    text = (str(error).strip().splitlines() or [""])[0]
    frames = traceback.extract_tb(error.__traceback__)
    place = next((f for f in reversed(frames) if f.filename != __file__), None)
    where = f" ({Path(place.filename).name}:{place.lineno})" if place else ""
    if isinstance(error, SyntaxError):  # its message names the place
        where = ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"
