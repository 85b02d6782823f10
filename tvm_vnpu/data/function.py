"""module:function, a Python function that yields batches."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm_vnpu.data.dataset import Batch, DataError


@dataclass(frozen=True, slots=True)
class FunctionData:
    """Batches from `module:function`; modules in the current folder are found too."""

    text: str

    @property
    def samples(self) -> int | None:
        """Return None: nobody knows before the function ends."""
        return None

    def batches(self) -> Iterator[Batch]:
        """Yield what the function yields. Raises DataError unless that are dicts of arrays."""
        for batch in _called(self.text, self._function()):
            if not isinstance(batch, dict):
                raise DataError(
                    f"{self.text} yields something other than a dict",
                    seen=type(batch).__name__,
                    fix="yield dicts from input names to arrays",
                )
            yield batch

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


def _called(text: str, function: Callable[[], Any]) -> Iterable[Any]:
    result = function()
    if isinstance(result, dict) or not isinstance(result, Iterable):
        raise DataError(
            f"{text} returns something other than batches",
            seen=type(result).__name__,
            fix="yield dicts from input names to arrays",
        )
    return result
