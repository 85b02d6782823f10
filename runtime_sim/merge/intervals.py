"""Which definition last wrote each part of a memory, as a sorted list of intervals."""

from __future__ import annotations

from bisect import bisect_right

from runtime_sim.merge.values import Definition


class Intervals:
    """Disjoint intervals of a memory, each with the newest definition whose hull covers it.

    A definition may leave gaps inside its hull: whoever asks must check that what it reads was
    written, which `affine.through` does.
    """

    def __init__(self) -> None:
        """Start with a memory that nothing has written."""
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._owners: list[Definition] = []

    def put(self, low: int, high: int, owner: Definition) -> None:
        """Record that `owner` writes inside [low, high)."""
        lows, highs, owners = self._lows, self._highs, self._owners
        first = bisect_right(lows, low)
        if first and highs[first - 1] > low:
            first -= 1
        last = first
        while last < len(lows) and lows[last] < high:
            last += 1
        new: list[tuple[int, int, Definition]] = [(low, high, owner)]
        if last > first:
            if lows[first] < low:
                new.insert(0, (lows[first], low, owners[first]))
            if highs[last - 1] > high:
                new.append((high, highs[last - 1], owners[last - 1]))
        lows[first:last] = [n[0] for n in new]
        highs[first:last] = [n[1] for n in new]
        owners[first:last] = [n[2] for n in new]

    def sole(self, low: int, high: int) -> Definition | None:
        """Return the definition that covers [low, high) alone; None if there is none."""
        at = bisect_right(self._lows, low) - 1
        if at < 0 or self._highs[at] < high:
            return None
        return self._owners[at]

    def within(self, low: int, high: int) -> list[tuple[int, int, Definition]] | None:
        """Return the intervals that cover [low, high) without a gap, in order; None if none do."""
        at, found, reached = max(bisect_right(self._lows, low) - 1, 0), [], low
        while reached < high:
            if at >= len(self._lows) or self._lows[at] > reached or self._highs[at] <= reached:
                return None
            found.append((self._lows[at], self._highs[at], self._owners[at]))
            reached = self._highs[at]
            at += 1
        return found
