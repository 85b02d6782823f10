"""The Relax front end: import, names, partitioning (apache-tvm 0.27)."""

from __future__ import annotations

from typing import Any

from tvm_vnpu import lazy
from tvm_vnpu.frontend.environment import require_door

require_door("relax")

from tvm_vnpu.relax import runtime  # noqa: E402

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
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
