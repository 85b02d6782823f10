"""Happens-before: which commands are certainly done when a command starts.

A clock holds, for each queue, how many of its commands are done. Queues are in order; a wait adds
the clock of the post it takes; a fence adds everything before it. Streams are checked in stream
order, which is a legal execution because no command waits for a later one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from runtime_sim.isa.fields import Queue
from runtime_sim.isa.table import SEMAPHORES
from runtime_sim.plan import Planned
from runtime_sim.verify.errors import VerifyError, fault

QUEUES = 4
COUNTER_MAX = 255
Clock = list[int]


@dataclass(slots=True)
class Semaphore:
    """Posts (with their clocks) and waits (queue, position) of one semaphore so far."""

    posts: list[tuple[int, Clock]] = field(default_factory=list)
    waits: list[list[int]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    taken: int = 0
    last_wait: tuple[int, int] | None = None
    peak: int = 0


class Order:
    """Walks a stream and knows the clock of every command."""

    def __init__(self, queue_depth: int) -> None:
        self._depth = queue_depth
        self._counts: Clock = [0] * QUEUES
        self._fence: Clock = [0] * QUEUES
        self._done: list[Clock] = [[0] * QUEUES for _ in range(QUEUES)]
        self.semaphores = [Semaphore() for _ in range(SEMAPHORES)]
        self._ended: Planned | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Return how many commands each of LD, MX, VX and ST has received."""
        return tuple(self._counts)

    def enter(self, command: Planned) -> Clock:
        """Return the clock at which `command` starts; its own queue's entry is its position - 1.

        Checks every rule about order. For a command of the controller the clock has no meaning.
        """
        self._end_is_last(command)
        queue = int(command.row.queue)
        if queue == Queue.CTRL:
            if command.row.mnemonic == "FENCE":
                self._fence = list(self._counts)
            return list(self._fence)
        position = self._counts[queue] + 1
        base = _join((self._done[queue], self._fence))
        waits = list(bits(command.fields["wait"]))
        taken = {bit: self._take(command, bit) for bit in waits}
        for bit in waits:
            others = [clock for other, clock in taken.items() if other != bit]
            self._one_waiting_queue(command, bit, position, _join([base, *others]))
        clock = _join([base, *taken.values()])
        done = list(clock)
        done[queue] = position
        for bit in bits(command.fields["post"]):
            self._one_posting_queue(command, bit, clock)
            self._post(command, bit, done)
        self._counts[queue] = position
        self._done[queue] = done
        return clock

    def finish(self) -> None:
        """Check the rules about the end of a stream."""
        if self._ended is None:
            raise VerifyError("the stream has no END", rule="ends_once")
        for bit, semaphore in enumerate(self.semaphores):
            if semaphore.taken != len(semaphore.posts):
                left = len(semaphore.posts) - semaphore.taken
                raise fault("balanced", self._ended, f"leaves semaphore {bit} above zero", left, 0)

    def _end_is_last(self, command: Planned) -> None:
        """END stands once, as the last command."""
        if self._ended is not None:
            raise fault("ends_once", command, "follows END", f"END at {self._ended.index}")
        if command.row.mnemonic == "END":
            self._ended = command

    def _take(self, command: Planned, bit: int) -> Clock:
        """The post that a wait takes stands earlier in the stream, so no depth can deadlock."""
        semaphore = self.semaphores[bit]
        if semaphore.taken >= len(semaphore.posts):
            raise fault(
                "causal",
                command,
                f"waits for semaphore {bit} before it is posted",
                f"wait {semaphore.taken + 1}",
                f"{len(semaphore.posts)} earlier posts",
            )
        semaphore.taken += 1
        return semaphore.posts[semaphore.taken - 1][1]

    def _one_waiting_queue(self, command: Planned, bit: int, position: int, clock: Clock) -> None:
        """Another queue may wait for a semaphore only after its last wait is certainly over."""
        semaphore, queue = self.semaphores[bit], int(command.row.queue)
        if semaphore.last_wait is not None:
            last_queue, last = semaphore.last_wait
            if last_queue != queue and last > clock[last_queue]:
                raise fault(
                    "one_queue_each",
                    command,
                    f"waits for semaphore {bit} while queue {Queue(last_queue).name} may",
                    command.row.queue.name,
                    "one waiting queue at a time",
                )
        semaphore.last_wait = (queue, position)
        semaphore.waits[queue].append(position)

    def _one_posting_queue(self, command: Planned, bit: int, clock: Clock) -> None:
        """Another queue may post a semaphore only after all its posts were certainly taken."""
        semaphore, queue = self.semaphores[bit], int(command.row.queue)
        if not semaphore.posts or semaphore.posts[-1][0] == queue:
            return
        idle = semaphore.taken == len(semaphore.posts) and semaphore.last_wait is not None
        if idle and semaphore.last_wait is not None:
            last_queue, last = semaphore.last_wait
            idle = last_queue == queue or last <= clock[last_queue]
        if not idle:
            raise fault(
                "one_queue_each",
                command,
                f"posts semaphore {bit} while posts of {Queue(semaphore.posts[-1][0]).name} "
                "may be pending",
                command.row.queue.name,
                "one posting queue at a time",
            )

    def _post(self, command: Planned, bit: int, done: Clock) -> None:
        """A counter never exceeds 255, however far the posting queue runs ahead of the waits.

        A wait is over if its command happens before this one, or left its queue because the
        controller could not have issued this command otherwise.
        """
        semaphore = self.semaphores[bit]
        semaphore.posts.append((int(command.row.queue), done))
        over = sum(
            bisect_right(positions, max(done[queue], self._counts[queue] - self._depth))
            for queue, positions in enumerate(semaphore.waits)
        )
        count = len(semaphore.posts) - over
        semaphore.peak = max(semaphore.peak, count)
        if count > COUNTER_MAX:
            raise fault(
                "counter_fits", command, f"may overflow semaphore {bit}", count, COUNTER_MAX
            )


def bits(mask: int) -> Iterator[int]:
    """Yield the semaphore numbers in a wait or post mask."""
    return (bit for bit in range(SEMAPHORES) if mask >> bit & 1)


def _join(clocks: Iterable[Clock]) -> Clock:
    return [max(column) for column in zip(*clocks)]
