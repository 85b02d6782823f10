"""Read DATA: calibration and validation sets in the forms the `vnpu` command takes."""

from __future__ import annotations

from typing import Any

from tvm_vnpu import lazy

_HOMES = {
    "DataSet": "dataset",
    "DataError": "dataset",
    "ImageOptions": "images",
    "open_data": "open",
    "without_labels": "dataset",
    "find_labels": "dataset",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
