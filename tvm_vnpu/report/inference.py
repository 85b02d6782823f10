"""One inference of a compiled model: what a profile and a trace are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime_sim.npu import NpuConfig
from tvm_vnpu.artifact.records import Region
from tvm_vnpu.report.placement import Placement


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """The streams of a model for one image, and where its operators run.

    `model` is the file's name, `rounding` the semantics profile; `calibrated` is False where the
    ranges are placeholders.
    """

    model: str
    npu: NpuConfig
    rounding: str
    calibrated: bool
    regions: Sequence[Region]
    operators: Sequence[Placement]

    @property
    def title(self) -> str:
        """Return what is run in one line."""
        return f"{self.model} on {self.npu.name}, rounding {self.rounding}, one inference"
