"""What one inference costs: per layer, per engine, per memory, and in total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime_sim import timing
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import Timeline

if TYPE_CHECKING:
    from tvm_vnpu.artifact.meta import OperatorRecord
    from tvm_vnpu.artifact.records import LayerRecord, Region


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """One layer: cycles from the end of the layer before to its own end, MACs, and its bounds.

    `bounds` are the cycles that the array, the vector unit and the memories need at least, whatever
    the schedule, and those that the controller spends issuing; `bound` names the largest.
    `lower_bound_cycles` is the largest without the controller, `utilization` MACs over the array's
    peak.
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


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """One engine: busy cycles, and idle cycles by cause (see `runtime_sim.idle`)."""

    name: str
    busy: int
    idle: dict[str, int]


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
        return {**asdict(self), **derived}

    def __str__(self) -> str:
        """Return the profile as text."""
        from tvm_vnpu.report.profile_text import profile_text

        return profile_text(self)

    def _repr_html_(self) -> str:
        """Return the profile as HTML for notebooks."""
        from tvm_vnpu.report.profile_text import profile_html

        return profile_html(self)


def make_profile(
    *,
    model: str,
    npu: NpuConfig,
    rounding: str,
    calibrated: bool,
    regions: Sequence[Region],
    operators: Sequence[OperatorRecord],
) -> Profile:
    """Time every region's stream and put the figures together."""
    timelines = [timing.simulate(region.words, npu) for region in regions]
    total = sum(timeline.total for timeline in timelines)
    layers = [
        layer
        for region, timeline in zip(regions, timelines)
        for layer in _layers(region, timeline, npu, total)
    ]
    macs = sum(layer.macs for layer in layers)
    records = [region.record for region in regions]
    return Profile(
        model=model,
        npu=npu.name,
        npu_digest=npu.digest(),
        rounding=rounding,
        calibrated=calibrated,
        cycles=total,
        clock_mhz=npu.clock_mhz,
        macs=macs,
        utilization=_utilization(macs, total, npu),
        lower_bound_cycles=sum(layer.lower_bound_cycles for layer in layers),
        layers=tuple(layers),
        engines=_engines(timelines),
        memories=_memories(timelines),
        peaks={
            "SPM": max((record.spm_peak_bytes for record in records), default=0),
            "ACC": max((record.acc_peak_bytes for record in records), default=0),
            "arena": max((record.arena_bytes for record in records), default=0),
        },
        capacities={"SPM": npu.spm_bytes, "ACC": npu.acc_kib * 1024},
        constants_bytes=sum(record.constants_bytes for record in records),
        regions=len(regions),
        operators=len(operators),
        cpu_operators=sum(operator.device == "cpu" for operator in operators),
    )


def _layers(region: Region, timeline: Timeline, npu: NpuConfig, total: int) -> list[LayerProfile]:
    """Return the layers of a region; their cycles add up to the region's total."""
    ends = np.maximum.accumulate(timeline.end) if len(timeline.end) else timeline.end
    issue = np.cumsum(timing.measure(region.words, npu).issue)
    layers, records = [], region.record.layers
    before, issued = 0, 0
    for index, record in enumerate(records):
        last = record.last - 1
        end = timeline.total if index == len(records) - 1 else int(ends[last])
        spent = int(issue[last]) - issued
        layers.append(_layer(region.record.name, record, end - before, spent, npu, total))
        before, issued = end, int(issue[last])
    return layers


def _layer(
    region: str, record: LayerRecord, cycles: int, issue: int, npu: NpuConfig, total: int
) -> LayerProfile:
    bandwidth = sum(memory.bytes_per_cycle for memory in npu.memories)
    memories = "+".join(memory.name for memory in npu.memories)
    bounds = {
        "array": float(record.matrix_cycles),
        "vector": record.vector_elements / npu.lanes,
        f"memory {memories}": record.dram_bytes / bandwidth,
    }
    lower = max(bounds.values())
    bounds["controller"] = float(issue)
    return LayerProfile(
        region=region,
        name=record.name,
        nodes=record.nodes,
        operator=record.operator,
        kernel=record.kernel,
        schedule=record.schedule,
        cycles=cycles,
        share=cycles / total if total else 0.0,
        macs=record.macs,
        utilization=_utilization(record.macs, cycles, npu),
        lower_bound_cycles=int(np.ceil(lower)),
        bound=max(bounds, key=lambda name: bounds[name]),
        bounds=bounds,
        commands=record.last - record.first,
    )


def _utilization(macs: int, cycles: int, npu: NpuConfig) -> float:
    return macs / (cycles * npu.macs_per_cycle) if cycles else 0.0


def _engines(timelines: Sequence[Timeline]) -> tuple[EngineProfile, ...]:
    engines: dict[str, EngineProfile] = {}
    for timeline in timelines:
        for name, use in timeline.engines.items():
            old = engines.get(name, EngineProfile(name, 0, {}))
            causes = {*old.idle, *use.idle}
            idle = {c: old.idle.get(c, 0) + use.idle.get(c, 0) for c in sorted(causes)}
            engines[name] = EngineProfile(name, old.busy + use.busy, idle)
    return tuple(engines.values())


def _memories(timelines: Sequence[Timeline]) -> tuple[MemoryProfile, ...]:
    if not timelines:
        return ()
    rows = zip(*(timeline.memories for timeline in timelines), strict=True)
    return tuple(
        MemoryProfile(
            memories[0].name,
            sum(m.read for m in memories),
            sum(m.written for m in memories),
            sum(m.read_in_bursts for m in memories),
            sum(m.written_in_bursts for m in memories),
        )
        for memories in rows
    )
