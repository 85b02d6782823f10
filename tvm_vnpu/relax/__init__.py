"""The Relax front end: import, names, partitioning (apache-tvm 0.27)."""

from __future__ import annotations

import importlib
from typing import Any

from tvm_vnpu.relax import runtime

_HOMES = {
    "from_onnx": "importer",
    "load_onnx": "importer",
    "input_names": "names",
    "output_names": "names",
    "node_name": "names",
    "partition_for_vnpu": "partition",
    "explain": "explanation",
}

__all__ = ["runtime", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Load a public function from its module on first use.

    Raises AttributeError for a name that is no part of the public interface.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
