"""The event timeline: when every command runs, and why an engine idles when it does.

Commands are served in stream order at every shared point (controller, queue, memory), and a
semaphore's k-th wait takes its k-th post. Every time is therefore a maximum of earlier times plus
constants, one pass in stream order computes them all, and a shorter transfer never delays anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from runtime_sim.cost import COSTS
from runtime_sim.errors import VnpuError
from runtime_sim.idle import EngineUse, controller_use, engine_use
from runtime_sim.isa.codec import Columns, Words, as_words, decode_columns
from runtime_sim.isa.fields import Queue
from runtime_sim.isa.table import SEMAPHORES
from runtime_sim.npu import NpuConfig
from runtime_sim.traffic import bursts, memory_index, useful_bytes

Column = NDArray[np.int64]
ENGINES = (Queue.LD, Queue.MX, Queue.VX, Queue.ST)


class TimingError(VnpuError):
    """A stream whose timeline is undefined: it waits for what was never posted."""


@dataclass(frozen=True, slots=True)
class MemoryTraffic:
    """Bytes one DRAM moved: useful ones, and in whole bursts as the bus sees them."""

    name: str
    read: int
    written: int
    read_in_bursts: int
    written_in_bursts: int


@dataclass(frozen=True, slots=True)
class CounterRead:
    """A COUNTER command: its index in the stream, its id and the cycle it latched."""

    command: int
    id: int
    cycle: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """What a stream costs. Cycles are integers from 0; arrays have one entry per command.

    `issued` is when the controller handed the command over, `start` to `end` when its engine was
    busy with it (for DMA, the data phase).
    """

    total: int
    engines: Mapping[str, EngineUse]
    memories: tuple[MemoryTraffic, ...]
    queue: Column
    issued: Column
    start: Column
    end: Column
    counters: tuple[CounterRead, ...]


@dataclass(slots=True)
class Work:
    """What the timeline needs of each command, one column each; `memory` is -1 where unused."""

    queue: Column
    issue: Column
    wait: Column
    post: Column
    cycles: Column
    memory: Column
    useful: Column
    bursts: Column
    drains: Column
    counter: Column

    def part(self, first: int, last: int) -> Work:
        """Return the commands [first, last)."""
        return Work(*(getattr(self, entry.name)[first:last] for entry in fields(Work)))


FENCE, END = 1, 2
"""Values of `Work.drains`; END's own wait is the end of the program, not a stall."""

MOMENTS = ("issued", "waited", "producer", "ready", "turn", "start", "end")
"""Per command: the moments that separate the causes of its engine's idle time before it."""


def simulate(stream: bytes | Words, config: NpuConfig) -> Timeline:
    """Return the timeline of `stream` on `config`.

    Raises DecodingError for an illegal stream and TimingError for one that is not causal.
    """
    work = measure(stream, config)
    schedule = _Schedule(work, config)
    run = schedule.run()
    moments = np.fromiter(chain.from_iterable(run), np.int64, len(run) * len(MOMENTS))
    moments = moments.reshape(-1, len(MOMENTS))
    columns = dict(zip(MOMENTS, moments.T, strict=True))
    stalls, total = np.array(schedule.stalls, np.int64).reshape(-1, 3), schedule.total
    engines = {
        queue.name: engine_use(work.queue == queue, columns, stalls, total) for queue in ENGINES
    }
    engines["CTRL"] = controller_use(int(work.issue.sum()), stalls, total)
    reads = np.flatnonzero(work.counter >= 0)
    return Timeline(
        total=total,
        engines=engines,
        memories=_traffic(work, config),
        queue=work.queue,
        issued=columns["issued"],
        start=columns["start"],
        end=columns["end"],
        counters=tuple(
            CounterRead(int(i), int(work.counter[i]), int(columns["issued"][i])) for i in reads
        ),
    )


def measure(stream: bytes | Words, config: NpuConfig) -> Work:
    """Return the cost columns of a stream; raises DecodingError for an illegal one."""
    return work_of(decode_columns(stream), len(as_words(stream)), config)


def work_of(groups: Iterable[Columns], count: int, config: NpuConfig) -> Work:
    """Return the cost columns of `count` commands that are given instruction by instruction.

    Only the fields that cost or order anything are read.
    """
    columns = {entry.name: np.zeros(count, np.int64) for entry in fields(Work)}
    columns["memory"] -= 1
    columns["counter"] -= 1
    work = Work(**columns)
    for group in groups:
        _fill(work, group, config)
    return work


def _fill(work: Work, group: Columns, config: NpuConfig) -> None:
    index, f, row = group.index, group.fields, group.row
    work.queue[index] = row.queue
    for name in ("issue", "wait", "post"):
        getattr(work, name)[index] = f[name]
    work.cycles[index] = COSTS[row.mnemonic](f, config)
    work.drains[index] = {"FENCE": FENCE, "END": END}.get(row.mnemonic, 0)
    if row.mnemonic == "COUNTER":
        work.counter[index] = f["id"]
    if row.queue in (Queue.LD, Queue.ST):
        memory = memory_index(f, config)
        sizes = np.array([m.burst for m in config.memories], np.int64)
        work.memory[index] = memory
        work.useful[index] = useful_bytes(f)
        work.bursts[index] = bursts(f, config) * sizes[memory]


class _Schedule:
    """All times of a stream, computed in one pass in stream order."""

    def __init__(self, work: Work, config: NpuConfig) -> None:
        self._work = work
        self._latency = [memory.latency for memory in config.memories]
        self._memory_start = [0] * len(self._latency)
        self._memory_end = [0] * len(self._latency)
        self._start, self._end = [0] * 5, [0] * 5
        self._recent = [deque([0] * config.queue_depth, config.queue_depth) for _ in range(5)]
        """When each queue's last commands left it, oldest first: as many as it has room for."""
        self.stalls: list[tuple[int, int, int]] = []
        """Controller stalls: (from, to, queue that was full; CTRL for a fence)."""
        self.total = 0

    def run(self) -> list[tuple[int, ...]]:
        """Return the MOMENTS of every command and set `stalls` and `total`."""
        work, semaphores = self._work, _Semaphores(self._work)
        moments: list[tuple[int, ...]] = []
        now, ends, recent, transfer = 0, self._end, self._recent, self._transfer
        columns = (work.queue, work.issue, work.wait, work.post, work.cycles, work.memory)
        rows = zip(*(column.tolist() for column in (*columns, work.drains)), strict=True)
        for index, (queue, issue, wait, post, cycles, memory, drains) in enumerate(rows):
            now += issue
            left = recent[queue]
            free = max(ends) if drains else left[0]
            if free > now:
                if drains != END:
                    self.stalls.append((now, free, queue))
                now = free
            begin, producer, waited = now, -1, 0
            if wait:
                waited, producer = semaphores.take(index, wait)
                if waited > begin:
                    begin = waited
            if memory >= 0:
                begin, ready, turn, start = transfer(queue, memory, cycles, begin)
            else:
                if queue != Queue.CTRL and ends[queue] > begin:
                    begin = ends[queue]
                ready = turn = start = begin
            ends[queue] = end = start + cycles
            left.append(begin)
            if post:
                semaphores.give(post, end, queue)
            moments.append((now, waited, producer, ready, turn, start, end))
        self.total = max(now, *ends)
        return moments

    def _transfer(
        self, queue: int, memory: int, cycles: int, begin: int
    ) -> tuple[int, int, int, int]:
        """Return (begin, ready, turn, start) of a transfer that may begin at `begin`.

        Its latency runs beside its predecessor's data; its data follow those of the transfer issued
        before it on the same memory.
        """
        begin = max(begin, self._start[queue])
        ready, turn = begin + self._latency[memory], self._memory_start[memory]
        start = max(ready, self._end[queue], self._memory_end[memory])
        self._memory_start[memory], self._memory_end[memory] = start, start + cycles
        self._start[queue] = start
        return begin, ready, turn, start


class _Semaphores:
    """Post times of every semaphore; the k-th wait takes the k-th post."""

    def __init__(self, work: Work) -> None:
        masks = np.unique(np.concatenate([work.wait, work.post])).tolist()
        self._bits = {mask: [bit for bit in range(SEMAPHORES) if mask >> bit & 1] for mask in masks}
        self._posts: list[list[tuple[int, int]]] = [[] for _ in range(SEMAPHORES)]
        self._taken = [0] * SEMAPHORES

    def take(self, index: int, mask: int) -> tuple[int, int]:
        """Return (time, producing queue) of the last of the posts that a wait mask takes."""
        latest = (0, -1)
        for bit in self._bits[mask]:
            position = self._taken[bit]
            if position >= len(self._posts[bit]):
                raise TimingError(
                    f"command {index} waits for semaphore {bit}, which no earlier command posts",
                    fix="run the verifier on this stream",
                )
            self._taken[bit] = position + 1
            latest = max(latest, self._posts[bit][position])
        return latest

    def give(self, mask: int, time: int, queue: int) -> None:
        """Record a post of every semaphore in `mask`."""
        for bit in self._bits[mask]:
            self._posts[bit].append((time, queue))


def _traffic(work: Work, config: NpuConfig) -> tuple[MemoryTraffic, ...]:
    rows = []
    for index, memory in enumerate(config.memories):
        here = work.memory == index
        sums = [
            int(column[here & (work.queue == queue)].sum())
            for column in (work.useful, work.bursts)
            for queue in (Queue.LD, Queue.ST)
        ]
        rows.append(MemoryTraffic(memory.name, *sums))
    return tuple(rows)
