"""The operators of an NpuGraph: one file each, found by themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codegen.ops.base import Operator


@lru_cache(maxsize=1)
def operators() -> Mapping[str, type[Operator]]:
    """Return kind -> class of every operator defined in this package, by name.

    Raises ImportError where two operators have one kind.
    """
    found: dict[str, type[Operator]] = {}
    for info in sorted(pkgutil.iter_modules(__path__), key=lambda info: info.name):
        module = importlib.import_module(f"{__name__}.{info.name}")
        classes: list[Any] = [cls for cls in vars(module).values() if inspect.isclass(cls)]
        for cls in classes:
            if cls.__module__ != module.__name__:
                continue
            kind = vars(cls).get("kind")
            if kind is None or inspect.isabstract(cls):
                continue
            if kind in found:
                raise ImportError(f"two operators are called {kind!r}")
            found[kind] = cls
    return MappingProxyType(dict(sorted(found.items())))
