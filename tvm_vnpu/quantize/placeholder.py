"""Ranges for a model nobody has calibrated: enough to compile and time it, not to run it."""

from __future__ import annotations

from dataclasses import dataclass

import tvm

from tvm_vnpu.quantize.annotate import annotated_tensors
from tvm_vnpu.quantize.calibrate import with_ranges

_RANGE = [-8.0, 8.0]


@dataclass(frozen=True, slots=True)
class PlaceholderRanges:
    """Give every chosen tensor the range [-8, 8]."""

    name: str = "placeholder-ranges"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with `vnpu.ranges` on `main`."""
        return with_ranges(mod, dict.fromkeys(annotated_tensors(mod["main"]), _RANGE))
