"""The total of a timeline, without its moments: what a search for schedules asks for.

The recurrence is that of `runtime_sim.timing`; tests hold the two equal, and the one in C that
`codegen.totals` runs for the tuner.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from runtime_sim.isa.fields import Queue
from runtime_sim.isa.table import SEMAPHORES
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import TimingError, Work

_CTRL = int(Queue.CTRL)


def total_cycles(work: Work, config: NpuConfig) -> int:
    """Return `simulate(stream, config).total` for the stream whose costs are `work`.

    Raises TimingError as `simulate`, without the command.
    """
    try:
        return _run(work, config)
    except IndexError:
        raise not_causal() from None


def not_causal() -> TimingError:
    """Return the error of a stream whose commands wait for each other."""
    return TimingError("a command waits for what no earlier command posts")


def _run(work: Work, config: NpuConfig) -> int:
    latency = [memory.latency for memory in config.memories]
    memory_end, start, end, now = [0] * len(latency), [0] * 5, [0] * 5, 0
    recent = [deque([0] * config.queue_depth, config.queue_depth) for _ in range(5)]
    posts = _Posts()
    for queue, issue, cycles, memory, drains, wait, post in _rows(work):
        now += issue
        left = recent[queue]
        free = max(end) if drains else left[0]
        if free > now:
            now = free
        begin = now
        if wait:
            for times in posts[wait]:
                time = times.popleft()
                if time > begin:
                    begin = time
        if memory >= 0:
            begin = max(begin, start[queue])
            at = max(begin + latency[memory], end[queue], memory_end[memory])
            start[queue] = at
            done = end[queue] = memory_end[memory] = at + cycles
        else:
            at = end[queue]
            if at > begin and queue != _CTRL:
                begin = at
            done = end[queue] = begin + cycles
        left.append(begin)
        if post:
            for times in posts[post]:
                times.append(done)
    return max(now, *end)


def _rows(work: Work) -> Iterator[tuple[int, ...]]:
    columns = (work.queue, work.issue, work.cycles, work.memory, work.drains, work.wait, work.post)
    return zip(*(column.tolist() for column in columns), strict=True)


class _Posts(dict[int, list["deque[int]"]]):
    """The times of the posts that a mask's semaphores still hold, oldest first, by mask."""

    def __init__(self) -> None:
        self._posts = [deque[int]() for _ in range(SEMAPHORES)]

    def __missing__(self, mask: int) -> list[deque[int]]:
        chosen = [self._posts[bit] for bit in range(SEMAPHORES) if mask >> bit & 1]
        return self.setdefault(mask, chosen)
