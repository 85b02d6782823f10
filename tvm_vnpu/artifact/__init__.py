"""The artefact folder: what `vnpu compile` writes, and everything that reads it."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "Artifact": "load",
    "load_artifact": "load",
    "compile_model": "compile",
    "evaluate": "evaluation",
    "read_model": "prepare",
    "profile_model": "prepare",
    "explain_model": "prepare",
    "TensorSpec": "spec",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use.

    Raises AttributeError for a name that is no part of the public interface.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
