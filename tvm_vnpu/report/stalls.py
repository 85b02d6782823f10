"""Where every engine's cycles go, layer by layer.

The causes are those of `runtime_sim.idle`, which sums them over a whole stream. Here each stretch
of busy or idle time keeps its place, so that it can be cut where one layer ends and the next
begins: for every engine and layer, busy cycles plus idle cycles are the layer's span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime_sim.isa.codec import Words
from runtime_sim.isa.fields import Queue
from runtime_sim.isa.layout import BY_MNEMONIC
from runtime_sim.isa.table import SEMAPHORES
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import ENGINES, Timeline, Work, measure
from tvm_vnpu.report.profile import EngineProfile

Column = NDArray[np.int64]
Clock = Callable[[Column], Column]
"""Cycles of some kind before given times; the identity counts all of them."""

CONTROLLER = "CTRL"
_BUSY = "busy"


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """Disjoint stretches of time, in order; some may be empty."""

    begin: Column
    end: Column

    def before(self, at: Column, clock: Clock = np.asarray) -> Column:
        """Return how many cycles of `clock` within the stretches lie before each time in `at`."""
        whole = np.concatenate([[0], np.cumsum(clock(self.end) - clock(self.begin))])
        index = np.searchsorted(self.end, at, side="right")
        cycles = whole[index]
        cut = index < len(self.end)
        begin = self.begin[index[cut]]
        cycles[cut] += clock(np.maximum(at[cut], begin)) - clock(begin)
        return cycles


@dataclass(frozen=True, slots=True, eq=False)
class ControllerTime:
    """When the controller issues each command and when it stalls before handing it over.

    It issues from `begin` to `ready` and stalls from there to the timeline's `issued`; `stalled`
    is False for END, after which there is nothing to hand over.
    """

    begin: Column
    ready: Column
    stalled: NDArray[np.bool_]


def controller_time(words: Words, timeline: Timeline, work: Work) -> ControllerTime:
    """Return how the controller spent its time on each command."""
    begin = np.concatenate([[0], timeline.issued[:-1]]) if len(words) else timeline.issued
    end = (words[:, 0] & np.uint64(0xFF)) == BY_MNEMONIC["END"].opcode
    ready = begin + work.issue
    return ControllerTime(begin, ready, (timeline.issued > ready) & ~end)


def engines_by_layer(
    words: Words, timeline: Timeline, npu: NpuConfig, ends: Sequence[int]
) -> list[tuple[EngineProfile, ...]]:
    """Return each layer's engines (LD, MX, VX, ST, CTRL): busy cycles, and idle ones by cause.

    `ends`: the cycle at which each layer ends, ascending; the first layer begins at 0.
    """
    work = measure(words, npu)
    cuts = np.array([0, *ends], np.int64)
    layers: list[list[EngineProfile]] = [[] for _ in ends]
    for name, causes in _engines(words, timeline, work, npu):
        spent = {cause: np.diff(before(cuts)) for cause, before in causes.items()}
        for index, layer in enumerate(layers):
            cycles = {cause: int(column[index]) for cause, column in spent.items()}
            busy = cycles.pop(_BUSY)
            idle = {cause: count for cause, count in cycles.items() if count}
            layer.append(EngineProfile(name, busy, idle))
    return [tuple(layer) for layer in layers]


def _engines(
    words: Words, timeline: Timeline, work: Work, npu: NpuConfig
) -> Iterator[tuple[str, Mapping[str, Clock]]]:
    controller = controller_time(words, timeline, work)
    fences = _stalls(timeline, controller, work.queue == Queue.CTRL)
    full = _stalls(timeline, controller, work.queue != Queue.CTRL)
    moments = _moments(timeline, work, npu)
    for queue in ENGINES:
        mine = {name: column[work.queue == queue] for name, column in moments.items()}
        yield queue.name, _engine(mine, fences, full, timeline.total)
    yield CONTROLLER, _controller(timeline, work, controller)


def _stalls(timeline: Timeline, controller: ControllerTime, chosen: NDArray[np.bool_]) -> Stretches:
    picked = controller.stalled & chosen
    return Stretches(controller.ready[picked], timeline.issued[picked])


def _controller(timeline: Timeline, work: Work, controller: ControllerTime) -> dict[str, Clock]:
    causes: dict[str, Clock] = {_BUSY: Stretches(controller.begin, controller.ready).before}
    for queue in Queue:
        cause = "fence" if queue == Queue.CTRL else f"queue full:{queue.name}"
        causes[cause] = _stalls(timeline, controller, work.queue == queue).before
    known = tuple(causes.values())

    def drained(at: Column) -> Column:
        """Return what is left: the controller has nothing to do."""
        rest = at.copy()
        for before in known:
            rest -= before(at)
        return rest

    causes["drain"] = drained
    return causes


def _engine(
    t: Mapping[str, Column], fences: Stretches, full: Stretches, total: int
) -> dict[str, Clock]:
    """Return the causes of one engine; see `runtime_sim.idle.engine_use` for the cuts."""
    previous = np.concatenate([np.zeros(1, np.int64), t["end"]])
    last, previous = previous[-1:], previous[:-1]
    issued = np.maximum(previous, t["issued"])
    waited = np.maximum(issued, t["waited"])
    ready = np.maximum(waited, t["ready"])
    turn = np.maximum(ready, t["turn"])
    gaps = Stretches(previous, issued)
    causes: dict[str, Clock] = {
        _BUSY: Stretches(t["start"], t["end"]).before,
        "controller": lambda at: (
            gaps.before(at) - gaps.before(at, fences.before) - gaps.before(at, full.before)
        ),
        "fence": lambda at: gaps.before(at, fences.before),
        "queue full": lambda at: gaps.before(at, full.before),
        "latency": Stretches(waited, ready).before,
        "memory order": Stretches(ready, turn).before,
        "memory": Stretches(turn, t["start"]).before,
        "drain": Stretches(last, np.array([total], np.int64)).before,
    }
    for queue in Queue:
        by = t["producer"] == queue
        causes[f"semaphore:{queue.name}"] = Stretches(issued[by], waited[by]).before
    return causes


def _moments(timeline: Timeline, work: Work, npu: NpuConfig) -> dict[str, Column]:
    """Return the moments of every command that separate the causes of the idle time before it."""
    waited, producer = _waits(work, timeline.end)
    ready, turn = timeline.start.copy(), timeline.start.copy()
    for queue in (Queue.LD, Queue.ST):
        mine = np.flatnonzero(work.queue == queue)
        before = np.concatenate([[0], timeline.start[mine[:-1]]]) if len(mine) else timeline.start
        begin = np.maximum(np.maximum(timeline.issued[mine], waited[mine]), before[: len(mine)])
        latency = np.array([memory.latency for memory in npu.memories], np.int64)
        ready[mine] = begin + latency[work.memory[mine]]
    for memory in range(len(npu.memories)):
        mine = np.flatnonzero(work.memory == memory)
        turn[mine[1:]] = timeline.start[mine[:-1]]
        turn[mine[:1]] = 0
    return {
        "issued": timeline.issued, "waited": waited, "producer": producer, "ready": ready,
        "turn": turn, "start": timeline.start, "end": timeline.end,
    }  # fmt: skip


def _waits(work: Work, end: Column) -> tuple[Column, Column]:
    """Return when the last post that each command waits for came, and from which queue (or -1)."""
    waited, producer = np.zeros_like(end), np.full_like(end, -1)
    for bit in range(SEMAPHORES):
        waits = np.flatnonzero(work.wait >> bit & 1)
        posts = np.flatnonzero(work.post >> bit & 1)[: len(waits)]
        time, queue = end[posts], work.queue[posts]
        same = time == waited[waits]
        later = (time > waited[waits]) | (same & (queue > producer[waits]))
        waited[waits[later]], producer[waits[later]] = time[later], queue[later]
    return waited, producer
