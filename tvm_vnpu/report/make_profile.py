"""Time the regions of a model and put the figures of its profile together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime_sim import timing
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import Timeline
from tvm_vnpu.artifact.records import LayerRecord, Region, RegionRecord
from tvm_vnpu.report.placement import Placement, tally
from tvm_vnpu.report.profile import EngineProfile, LayerProfile, MemoryProfile, Profile


def make_profile(
    *,
    model: str,
    npu: NpuConfig,
    rounding: str,
    calibrated: bool,
    regions: Sequence[Region],
    operators: Sequence[Placement],
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
    counts = tally(operators)
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
        peaks=_peaks(records),
        capacities={"SPM": npu.spm_bytes, "ACC": npu.acc_kib * 1024},
        constants_bytes=sum(record.constants_bytes for record in records),
        regions=len(regions),
        operators=counts.operators,
        cpu_operators=counts.on_cpu,
    )


def _peaks(records: Sequence[RegionRecord]) -> dict[str, int]:
    return {
        "SPM": max((record.spm_peak_bytes for record in records), default=0),
        "ACC": max((record.acc_peak_bytes for record in records), default=0),
        "arena": max((record.arena_bytes for record in records), default=0),
    }


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
