"""What one inference costs: per layer, per engine, per memory, and in total."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One engine: busy cycles, and idle cycles by cause (see `runtime_sim.idle`)."""

    name: str
    busy: int
    idle: dict[str, int]


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """One layer: cycles from the end of the layer before to its own end, MACs, and its bounds.

    `bounds` are the cycles that the array, the vector unit and the memories need at least, whatever
    the schedule, and those that the controller spends issuing; `bound` names the largest.
    `lower_bound_cycles` is the largest without the controller, `utilization` MACs over the array's
    peak. `engines` say where every engine's share of `cycles` went; `critical` is the busiest.
    """

    region: str
    name: str
    nodes: tuple[str, ...]
    operator: str
    kernel: str
    schedule: str
    cycles: int
    share: float
    macs: int
    utilization: float
    lower_bound_cycles: int
    bound: str
    bounds: dict[str, float]
    commands: int
    engines: tuple[EngineProfile, ...]

    @property
    def critical(self) -> EngineProfile:
        """Return the busiest engine: what it waited for is what the layer lost."""
        return max(self.engines, key=lambda engine: engine.busy)


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """Bytes that one DRAM moves per inference: useful ones, and in whole bursts."""

    name: str
    read: int
    written: int
    read_in_bursts: int
    written_in_bursts: int


@dataclass(frozen=True, slots=True)
class Profile:
    """One inference (batch 1) on the NPU; operators on the CPU cost no NPU cycles.

    `peaks` are the most bytes in use at once in SPM, ACC and the DRAM arena; `capacities` what
    there is. `cpu_share` is the share of operators on the CPU, 0 to 1.
    """

    model: str
    npu: str
    npu_digest: str
    rounding: str
    calibrated: bool
    cycles: int
    clock_mhz: float
    macs: int
    utilization: float
    lower_bound_cycles: int
    layers: tuple[LayerProfile, ...]
    engines: tuple[EngineProfile, ...]
    memories: tuple[MemoryProfile, ...]
    peaks: dict[str, int]
    capacities: dict[str, int]
    constants_bytes: int
    regions: int
    operators: int
    cpu_operators: int

    @property
    def time_ms(self) -> float:
        """Return the time of one inference in milliseconds."""
        return self.cycles / (self.clock_mhz * 1000)

    @property
    def inferences_per_second(self) -> float:
        """Return how many inferences one NPU does a second."""
        return self.clock_mhz * 1e6 / self.cycles if self.cycles else 0.0

    @property
    def cpu_share(self) -> float:
        """Return the share of operators on the CPU, 0 to 1."""
        return self.cpu_operators / self.operators if self.operators else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        derived = {
            "time_ms": self.time_ms,
            "inferences_per_second": self.inferences_per_second,
            "cpu_share": self.cpu_share,
        }
        table = {**asdict(self), **derived}
        for values, layer in zip(table["layers"], self.layers):
            values["critical"] = layer.critical.name
        return table

    def __str__(self) -> str:
        """Return the profile as text."""
        from tvm_vnpu.report.profile_text import profile_text

        return profile_text(self)

    def _repr_html_(self) -> str:
        """Return the profile as HTML for notebooks."""
        from tvm_vnpu.report.profile_text import profile_html

        return profile_html(self)
