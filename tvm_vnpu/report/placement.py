"""Where each operator of a model runs, and how many run where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_CONVERSIONS = frozenset(
    {
        "relax.quantize", "relax.dequantize", "qnn.quantize", "qnn.dequantize",
        "vnpu.quantize", "vnpu.dequantize",
    }
)  # fmt: skip

HEADERS = ("operator", "node", "device", "region", "reason")


@dataclass(frozen=True, slots=True)
class Placement:
    """One operator: its source node, what it is, where it runs, and why not on the NPU."""

    node: str
    operator: str
    device: str
    region: str
    reason: str

    @property
    def counts(self) -> bool:
        """Return whether it is an operator of the model, not a quantize or dequantize."""
        return self.operator not in _CONVERSIONS

    def row(self) -> list[str]:
        """Return the cells under HEADERS."""
        return [self.operator, self.node, self.device, self.region, self.reason]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many operators there are and how many of them run on the CPU; Q/DQ do not count."""

    operators: int
    on_cpu: int
    regions: int

    @property
    def on_npu(self) -> int:
        """Return how many run on the NPU."""
        return self.operators - self.on_cpu

    @property
    def cpu_share(self) -> float:
        """Return the share of operators on the CPU, 0 to 1."""
        return self.on_cpu / self.operators if self.operators else 0.0


def tally(placements: Iterable[Placement]) -> Tally:
    """Count operators by device, and the regions they are in."""
    listed = list(placements)
    counted = [placement for placement in listed if placement.counts]
    return Tally(
        operators=len(counted),
        on_cpu=sum(placement.device == "cpu" for placement in counted),
        regions=len({placement.region for placement in listed if placement.region}),
    )
