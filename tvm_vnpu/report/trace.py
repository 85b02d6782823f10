"""A timeline in the trace-event format that Perfetto and chrome://tracing open.

One track per engine, one for the controller and one for the layers. Times are microseconds of the
NPU's clock; `args.cycles` holds them exactly. Format: "Trace Event Format", complete events (X).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from runtime_sim import timing
from runtime_sim.isa.disasm import disassemble_lines
from runtime_sim.isa.fields import Queue
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import Timeline
from tvm_vnpu.artifact.records import Region
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import layer_ends
from tvm_vnpu.report.stalls import CONTROLLER, controller_time

Event = dict[str, Any]
Interval = tuple[str, int, int, dict[str, Any]]
"""Name, first cycle, end cycle, what to show beside it."""

LAYERS = "layers"
TRACKS = (LAYERS, *(queue.name for queue in timing.ENGINES), CONTROLLER)
_PROCESS = 1
_DECIMALS = 6


def trace_events(inference: Inference) -> Iterator[Event]:
    """Yield the events of one inference: names of the tracks, then each track in order of time.

    Regions follow each other without a gap, as in a profile.
    """
    npu, regions = inference.npu, inference.regions
    yield _name("process_name", 0, inference.title)
    for index, track in enumerate(TRACKS):
        yield _name("thread_name", index, track)
        yield {**_name("thread_sort_index", index, ""), "args": {"sort_index": index}}
    timelines = [timing.simulate(region.words, npu) for region in regions]
    rows = [_operands(region) for region in regions]
    for index, track in enumerate(TRACKS):
        offset = 0
        for region, timeline, commands in zip(regions, timelines, rows):
            for interval in _track(track, region, timeline, npu, commands):
                yield _event(index, interval, offset, npu.clock_mhz)
            offset += timeline.total


def write_trace(stream: TextIO, inference: Inference) -> None:
    """Write the trace of one inference as JSON, one event a line."""
    stream.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
    before = ""
    for event in trace_events(inference):
        stream.write(before + json.dumps(event, separators=(",", ":")))
        before = ",\n"
    stream.write("\n]}\n")


def _name(kind: str, thread: int, name: str) -> Event:
    return {"ph": "M", "pid": _PROCESS, "tid": thread, "name": kind, "args": {"name": name}}


def _event(thread: int, interval: Interval, offset: int, clock_mhz: float) -> Event:
    name, begin, end, details = interval
    start = round((begin + offset) / clock_mhz, _DECIMALS)
    return {
        "ph": "X",
        "pid": _PROCESS,
        "tid": thread,
        "name": name,
        "ts": start,
        "dur": round(round((end + offset) / clock_mhz, _DECIMALS) - start, _DECIMALS),
        "args": {"cycles": end - begin, **details},
    }


def _track(
    track: str, region: Region, timeline: Timeline, npu: NpuConfig, commands: list[Event]
) -> Iterable[Interval]:
    if track == LAYERS:
        return _layers(region, timeline)
    if track == CONTROLLER:
        return _controller(region, timeline, npu, commands)
    mine = (timeline.queue == Queue[track]).nonzero()[0].tolist()
    begin, end = timeline.start.tolist(), timeline.end.tolist()
    return ((commands[i]["mnemonic"], begin[i], end[i], commands[i]) for i in mine)


def _layers(region: Region, timeline: Timeline) -> Iterator[Interval]:
    begin = 0
    for layer, end in zip(region.record.layers, layer_ends(region, timeline)):
        details = {
            "region": region.record.name, "operator": layer.operator, "kernel": layer.kernel,
            "schedule": layer.schedule, "commands": layer.last - layer.first,
        }  # fmt: skip
        yield layer.name, begin, end, details
        begin = end


def _controller(
    region: Region, timeline: Timeline, npu: NpuConfig, commands: list[Event]
) -> Iterator[Interval]:
    """Yield what the controller issues, and its stalls: for a fence, or a full queue."""
    spent = controller_time(region.words, timeline, timing.measure(region.words, npu))
    columns = (spent.begin, spent.ready, timeline.issued, spent.stalled, timeline.queue)
    rows = zip(commands, *(column.tolist() for column in columns), strict=True)
    for details, begin, ready, issued, stalled, queue in rows:
        if ready > begin:
            yield f"issue {details['mnemonic']}", begin, ready, details
        if stalled:
            cause = "fence" if queue == Queue.CTRL else f"queue full:{Queue(queue).name}"
            yield cause, ready, issued, details


def _operands(region: Region) -> list[Event]:
    """Return for each command what to show beside it: index, mnemonic, layer, fields."""
    layers = [""] * len(region.words)
    for record in region.record.layers:
        layers[record.first : record.last] = [record.name] * (record.last - record.first)
    result = []
    for index, (line, layer) in enumerate(zip(disassemble_lines(region.words), layers)):
        _, _, mnemonic, *fields = line.split(maxsplit=3)
        result.append(
            {"command": index, "mnemonic": mnemonic, "layer": layer, "fields": "".join(fields)}
        )
    return result
