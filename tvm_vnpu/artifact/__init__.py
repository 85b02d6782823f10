"""The artefact folder: what `vnpu compile` writes, and everything that reads it."""

from __future__ import annotations

from typing import Any

from tvm_vnpu import lazy

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
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
