"""Time the regions of a model and put the figures of its profile together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime_sim import timing
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import Timeline
from tvm_vnpu.artifact.records import LayerRecord, Region, RegionRecord
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.placement import tally
from tvm_vnpu.report.profile import EngineProfile, LayerProfile, MemoryProfile, Profile
from tvm_vnpu.report.stalls import engines_by_layer


def make_profile(inference: Inference) -> Profile:
    """Time every region's stream and put the figures together."""
    npu, regions = inference.npu, inference.regions
    timelines = [timing.simulate(region.words, npu) for region in regions]
    total = sum(timeline.total for timeline in timelines)
    layers = [
        layer
        for region, timeline in zip(regions, timelines)
        for layer in _layers(region, timeline, npu, total)
    ]
    macs = sum(layer.macs for layer in layers)
    records = [region.record for region in regions]
    counts = tally(inference.operators)
    return Profile(
        model=inference.model,
        npu=npu.name,
        npu_digest=npu.digest(),
        rounding=inference.rounding,
        calibrated=inference.calibrated,
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


def layer_ends(region: Region, timeline: Timeline) -> list[int]:
    """Return the cycle at which each layer of a region ends; the last one ends with the stream."""
    latest = np.maximum.accumulate(timeline.end) if len(timeline.end) else timeline.end
    ends = [int(latest[layer.last - 1]) for layer in region.record.layers]
    return [*ends[:-1], timeline.total] if ends else []


def _layers(region: Region, timeline: Timeline, npu: NpuConfig, total: int) -> list[LayerProfile]:
    """Return the layers of a region; their cycles add up to the region's total."""
    ends = layer_ends(region, timeline)
    used = engines_by_layer(region.words, timeline, npu, ends)
    work = timing.measure(region.words, npu)
    issued = np.concatenate([[0], np.cumsum(work.issue)])
    layers: list[LayerProfile] = []
    before, first = 0, 0
    for record, end, engines in zip(region.record.layers, ends, used, strict=True):
        bounds = {
            "array": float(record.matrix_cycles),
            "vector": record.vector_elements / npu.lanes,
            **_memory_bounds(record, work, npu),
            "controller": float(issued[record.last] - issued[first]),
        }
        layers.append(_layer(region.record.name, record, end - before, bounds, engines, npu, total))
        before, first = end, record.last
    return layers


def _memory_bounds(record: LayerRecord, work: timing.Work, npu: NpuConfig) -> dict[str, float]:
    """Return the cycles that the layer's compulsory bytes take on each memory it uses.

    With several memories the bytes are shared out as the layer's commands really move them.
    """
    mine = slice(record.first, record.last)
    moved = [
        int(work.bursts[mine][work.memory[mine] == index].sum())
        for index in range(len(npu.memories))
    ]
    return {
        f"memory {memory.name}": record.dram_bytes * count / sum(moved) / memory.bytes_per_cycle
        for memory, count in zip(npu.memories, moved)
        if count
    }


def _lower_bound(record: LayerRecord, npu: NpuConfig) -> int:
    """Return the cycles that no schedule can beat; the controller's time is the schedule's own."""
    bandwidth = sum(memory.bytes_per_cycle for memory in npu.memories)
    vector, memory = record.vector_elements / npu.lanes, record.dram_bytes / bandwidth
    return int(np.ceil(max(record.matrix_cycles, vector, memory)))


def _layer(
    region: str,
    record: LayerRecord,
    cycles: int,
    bounds: dict[str, float],
    engines: tuple[EngineProfile, ...],
    npu: NpuConfig,
    total: int,
) -> LayerProfile:
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
        lower_bound_cycles=_lower_bound(record, npu),
        bound=max(bounds, key=lambda name: bounds[name]),
        bounds=bounds,
        commands=record.last - record.first,
        engines=engines,
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
