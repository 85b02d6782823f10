"""The Relay front end: patterns, partitioning and code generation (TVM 0.19)."""

from __future__ import annotations

import os
from typing import Any

from tvm_vnpu import lazy
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
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
