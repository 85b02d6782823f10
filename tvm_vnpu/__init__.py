"""TVM front ends, the quantiser and the `vnpu` command for the vNPU compiler.

Importing this package imports neither tvm nor onnx: a sub-package is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_SUBPACKAGES = ("artifact", "cli", "data", "quantize", "relax", "relay", "report", "sweep", "tuner")

__all__ = ["VnpuError", "__version__", *_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    """Load `tvm_vnpu.<name>` on first use.

    Raises AttributeError for a name that is no part of the public interface.
    """
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "VnpuError":
        return importlib.import_module("runtime_sim.errors").VnpuError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
