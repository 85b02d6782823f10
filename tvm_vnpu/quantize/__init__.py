"""Post-training quantisation: passes from a float Relax module to explicit Q/DQ."""

from __future__ import annotations

from typing import Any

from tvm_vnpu import lazy

_HOMES = {"quantize": "pipeline", "quantize_uncalibrated": "pipeline", "Recipe": "recipe"}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
