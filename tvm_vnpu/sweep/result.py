"""The rows of a sweep, as values, as text, as HTML and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TextIO

from tvm_vnpu.report.profile import Profile
from tvm_vnpu.report.table import Cell, html_table, percent, text_table


@dataclass(frozen=True, slots=True)
class Figures:
    """What one inference costs on one configuration; see `Profile`.

    DRAM traffic is in whole bursts. `cycles` leave out `cpu_operators`, which do not fit the NPU.
    """

    cycles: int
    time_ms: float
    inferences_per_second: float
    utilization: float
    lower_bound_cycles: int
    dram_read_bytes: int
    dram_written_bytes: int
    spm_peak_bytes: int
    acc_peak_bytes: int
    constants_bytes: int
    regions: int
    operators: int
    cpu_operators: int

    @staticmethod
    def of(profile: Profile) -> Figures:
        """Return the figures of a profile."""
        return Figures(
            cycles=profile.cycles,
            time_ms=profile.time_ms,
            inferences_per_second=profile.inferences_per_second,
            utilization=profile.utilization,
            lower_bound_cycles=profile.lower_bound_cycles,
            dram_read_bytes=sum(memory.read_in_bursts for memory in profile.memories),
            dram_written_bytes=sum(memory.written_in_bursts for memory in profile.memories),
            spm_peak_bytes=profile.peaks["SPM"],
            acc_peak_bytes=profile.peaks["ACC"],
            constants_bytes=profile.constants_bytes,
            regions=profile.regions,
            operators=profile.operators,
            cpu_operators=profile.cpu_operators,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration: its settings as they were written, its figures or why there are none.

    `reason` also says why operators stay on the CPU, where any do; `npu_digest` is empty for a
    configuration that is not legal.
    """

    settings: Mapping[str, str]
    npu_digest: str
    figures: Figures | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: settings, then figures (None where there are none)."""
        names = [entry.name for entry in fields(Figures)]
        figures = asdict(self.figures) if self.figures else dict.fromkeys(names)
        return {
            **self.settings, **figures, "npu_digest": self.npu_digest, "reason": self.reason
        }  # fmt: skip


_HEADERS = (
    "cycles", "ms", "inferences/s", "array use", "at least", "DRAM bytes", "SPM peak", "ACC peak",
    "regions", "on the CPU", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep of one model; rows come in the order of the product, the last field fastest."""

    model: str
    npu: str
    calibrated: bool
    swept: tuple[str, ...]
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "model": self.model,
            "npu": self.npu,
            "calibrated": self.calibrated,
            "swept": list(self.swept),
            "rows": [row.to_dict() for row in self.rows],
        }

    def write_csv(self, stream: TextIO) -> None:
        """Write one line a row under the names of the columns; absent figures are empty."""
        columns = [*self.swept, *(entry.name for entry in fields(Figures)), "npu_digest", "reason"]
        writer = csv.DictWriter(stream, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.to_dict() for row in self.rows)

    def table(self) -> tuple[list[str], list[list[Cell]]]:
        """Return headers and rows for people."""
        return [*self.swept, *_HEADERS], [_cells(row) for row in self.rows]

    def __str__(self) -> str:
        """Return the sweep as text."""
        return f"{self._title()}\n\n{text_table(*self.table())}"

    def _repr_html_(self) -> str:
        """Return the sweep as HTML for notebooks."""
        return f"<p>{self._title()}</p>{html_table(*self.table())}"

    def _title(self) -> str:
        return f"{self.model} on {self.npu} with changes, one inference each"


def _cells(row: Row) -> list[Cell]:
    settings: Sequence[Cell] = tuple(row.settings.values())
    f = row.figures
    if f is None:
        return [*settings, *[None] * (len(_HEADERS) - 1), row.reason]
    return [
        *settings, f.cycles, f"{f.time_ms:,.4g}", f"{f.inferences_per_second:,.0f}",
        percent(f.utilization), f.lower_bound_cycles, f.dram_read_bytes + f.dram_written_bytes,
        f.spm_peak_bytes, f.acc_peak_bytes, f.regions, f.cpu_operators, row.reason,
    ]  # fmt: skip
