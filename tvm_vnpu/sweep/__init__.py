"""What one model costs on many NPU configurations: a cartesian product, in parallel processes."""

from __future__ import annotations

from typing import Any

from tvm_vnpu import lazy

_HOMES = {"sweep": "run", "Sweep": "result", "Row": "result", "parse_settings": "settings"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
