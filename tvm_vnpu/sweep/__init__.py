"""What one model costs on many NPU configurations: a cartesian product, in parallel processes."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"sweep": "run", "Sweep": "result", "Row": "result", "parse_settings": "settings"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use.

    Raises AttributeError for a name that is no part of the public interface.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
