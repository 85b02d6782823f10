"""Post-training quantisation: passes from a float Relax module to explicit Q/DQ."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"quantize": "pipeline", "quantize_uncalibrated": "pipeline", "Recipe": "recipe"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use.

    Raises AttributeError for a name that is no part of the public interface.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
