"""Where each operator of a model runs: what `explain` returns, through either door."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tvm_vnpu.report.placement import HEADERS, Placement, tally
from tvm_vnpu.report.table import html_table

NO_PATTERN = "the NPU has no pattern for {}"
LONE_QDQ = "nothing beside it runs on the NPU"


@dataclass(frozen=True, slots=True)
class Explanation:
    """All operators of a model in order, NPU regions first met first.

    A node that became several calls is one operator; what only computes constants is none.
    """

    placements: tuple[Placement, ...]
    regions: int

    @property
    def cpu_share(self) -> float:
        """Return the share of operators on the CPU, 0 to 1; quantize and dequantize are none."""
        return tally(self.placements).cpu_share

    def to_dict(self) -> dict[str, object]:
        """Return the explanation as plain values."""
        return {
            "regions": self.regions,
            "cpu_share": self.cpu_share,
            "operators": [asdict(p) for p in self.placements],
        }

    def _repr_html_(self) -> str:
        """Return the table of operators as HTML for notebooks."""
        return html_table(HEADERS, [placement.row() for placement in self.placements])
