"""Public names that are loaded from their modules on first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any


def load(package: str, homes: Mapping[str, str], name: str) -> Any:
    """Return `name` from its home, a module of `package`.

    Raises AttributeError for a name that is no part of the package's public interface.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
