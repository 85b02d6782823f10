"""Charging every idle cycle of every engine to a cause.

Before a command starts, its engine idles from the end of its predecessor. That gap is cut at the
moments when the command was issued, when its semaphores had been posted and when its latency was
over; each piece has one cause:

- ``controller``: the controller had not issued it yet and was issuing other commands;
- ``fence``: ... and was waiting for all queues to drain;
- ``queue full``: ... and was waiting for room in some other queue;
- ``semaphore:Q``: it waited for a post by queue Q, the last one to arrive;
- ``latency``: the memory's latency, as far as the predecessor's data did not hide it;
- ``memory order``: a transfer issued earlier on that memory had not begun, and goes first;
- ``memory``: the memory was busy with a transfer issued earlier;
- ``drain``: the engine had no command left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime_sim.isa.fields import Queue

Column = NDArray[np.int64]
Stalls = NDArray[np.int64]
"""The controller's stalls (n, 3): from, to, queue that was full; CTRL for a fence."""


@dataclass(frozen=True, slots=True)
class EngineUse:
    """One engine's cycles: `busy` plus the sum of `idle` (cause -> cycles) is the total."""

    busy: int
    idle: Mapping[str, int]


def engine_use(
    mine: NDArray[np.bool_], times: Mapping[str, Column], stalls: Stalls, total: int
) -> EngineUse:
    """Return the use of the engine whose commands `mine` selects.

    `times` holds issued, waited, producer, ready, turn, start and end of every command.
    """
    t = {name: column[mine] for name, column in times.items()}
    previous = np.concatenate([np.zeros(1, np.int64), t["end"]])
    last, previous = int(previous[-1]), previous[:-1]
    issued = np.maximum(previous, t["issued"])
    waited = np.maximum(issued, t["waited"])
    ready = np.maximum(waited, t["ready"])
    turn = np.maximum(ready, t["turn"])
    fence = _stalled(stalls, issued, True) - _stalled(stalls, previous, True)
    full = _stalled(stalls, issued, False) - _stalled(stalls, previous, False)
    idle = {
        "controller": issued - previous - fence - full,
        "fence": fence,
        "queue full": full,
        **{
            f"semaphore:{queue.name}": np.where(t["producer"] == queue, waited - issued, 0)
            for queue in Queue
        },
        "latency": ready - waited,
        "memory order": turn - ready,
        "memory": t["start"] - turn,
    }
    sums = {cause: int(cycles.sum()) for cause, cycles in idle.items()}
    sums["drain"] = total - last
    busy = int((t["end"] - t["start"]).sum())
    return EngineUse(busy, {cause: cycles for cause, cycles in sums.items() if cycles})


def controller_use(busy: int, stalls: Stalls, total: int) -> EngineUse:
    """Return the controller's use: cycles spent issuing, and waiting for each queue or a fence."""
    idle: dict[str, int] = {}
    for queue in np.unique(stalls[:, 2]).tolist():
        cause = "fence" if queue == Queue.CTRL else f"queue full:{Queue(queue).name}"
        mine = stalls[stalls[:, 2] == queue]
        idle[cause] = int((mine[:, 1] - mine[:, 0]).sum())
    rest = total - busy - sum(idle.values())
    return EngineUse(busy, {**idle, "drain": rest} if rest else idle)


def _stalled(stalls: Stalls, at: Column, fences: bool) -> Column:
    """Return how many cycles before each time in `at` the controller spent in one kind of stall."""
    chosen = stalls[(stalls[:, 2] == Queue.CTRL) == fences, :2]
    if not len(chosen):
        return np.zeros_like(at)
    edges = chosen.astype(np.float64)
    lengths = np.cumsum(edges[:, 1] - edges[:, 0])
    sums = np.stack([np.concatenate([[0.0], lengths[:-1]]), lengths], axis=1)
    return np.rint(np.interp(at, edges.reshape(-1), sums.reshape(-1))).astype(np.int64)
