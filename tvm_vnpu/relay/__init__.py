"""The Relay front end: patterns, partitioning and code generation (TVM 0.19)."""

from __future__ import annotations

import importlib
import os
from typing import Any

from tvm_vnpu.frontend.environment import require_door

require_door("relay")
os.environ.setdefault("TOPHUB_LOCATION", "NONE")  # TVM would try to download schedules

from tvm_vnpu.relay import codegen_hook, runtime  # noqa: E402

_HOMES = {
    "partition_for_vnpu": "partition",
    "explain": "explanation",
    "pattern_table": "partition",
    "from_onnx": "importer",
    "load_onnx": "importer",
}

__all__ = ["codegen_hook", "runtime", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Load a public function from its module on first use.

    Raises AttributeError for a name that is no part of the public interface.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
