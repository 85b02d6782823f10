"""A nest of tile loops, flattened into one loop of steps, and the tiles that operands have in it.

An operand's tile changes with some of the loops only. It is loaded anew in each iteration of the
innermost loop that it depends on, and kept while the loops inside that one run: the order of the
loops decides what is read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from codegen.expr import Expr, ExprLike, as_expr, less, maximum, minimum

Indices = Mapping[str, Expr]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Loops by name, outermost first, with their iterations; step t is one index of each."""

    loops: tuple[tuple[str, Expr], ...]

    @property
    def steps(self) -> Expr:
        """Return how many steps there are."""
        return self.iterations(len(self.loops))

    def iterations(self, level: int) -> Expr:
        """Return how often the `level` outermost loops run their body."""
        return _product(self.loops[:level])

    def level_of(self, names: frozenset[str]) -> int:
        """Return how many of the outermost loops there are down to the last one in `names`.

        A loop of one iteration changes nothing: it does not count.
        """
        found = [name in names and count.constant != 1 for name, count in self.loops]
        return max((index + 1 for index, is_in in enumerate(found) if is_in), default=0)

    def number(self, t: Expr, level: int) -> Expr:
        """Return the running number of the iteration of the `level` outermost loops."""
        return t // self.inside(level) if self._turns(level) else as_expr(0)

    def first(self, t: Expr, level: int) -> Expr:
        """Return whether step t is the first one of such an iteration."""
        return less(self._position(t, level), 1)

    def last(self, t: Expr, level: int) -> Expr:
        """Return whether step t is the last one of such an iteration."""
        return less(self.inside(level) - 2, self._position(t, level))

    def indices(self, number: ExprLike, level: int) -> Indices:
        """Return each loop's index in iteration `number` of the `level` outermost ones."""
        found, rest = {name: as_expr(0) for name, _ in self.loops}, as_expr(number)
        turning = [(name, count) for name, count in self.loops[:level] if count.constant != 1]
        for name, count in reversed(turning[1:]):
            found[name], rest = rest % count, rest // count
        return found | {name: rest for name, _ in turning[:1]}

    def coarser(self, level: int, factor: int) -> LoopNest:
        """Return the nest whose loop number `level` takes `factor` iterations as one."""
        name, count = self.loops[level - 1]
        blocks = (name, (count + (factor - 1)) // factor)
        return LoopNest((*self.loops[: level - 1], blocks, *self.loops[level:]))

    def inside(self, level: int) -> Expr:
        """Return how many steps an iteration of the `level` outermost loops has."""
        return _product(self.loops[level:])

    def _position(self, t: Expr, level: int) -> Expr:
        return t % self.inside(level) if self._turns(level) else t

    def _turns(self, level: int) -> bool:
        return any(count.constant != 1 for _, count in self.loops[:level])


def _product(loops: tuple[tuple[str, Expr], ...]) -> Expr:
    product = as_expr(1)
    for _, count in loops:
        product = product * count
    return product


@dataclass(frozen=True, slots=True)
class Feed:
    """The tiles of an operand that depends on the `level` outermost loops of a nest.

    A tile serves `together` iterations of the innermost of those loops, which are one iteration
    of the same loop of `coarse`. Loads are issued `ahead` steps before the first step that
    needs them.
    """

    nest: LoopNest
    coarse: LoopNest
    level: int
    together: int
    ahead: Expr

    @classmethod
    def of(
        cls,
        nest: LoopNest,
        depends_on: frozenset[str],
        prefetch: int,
        buffers: int | None,
        together: int = 1,
    ) -> Feed:
        """Return the feed of an operand whose tile depends on the named loops.

        Loads run `prefetch` steps ahead, or as far as `buffers` rotating ones (None: a place for
        every tile) allow: a buffer's load is issued after the steps that read what is in it.
        """
        level = nest.level_of(depends_on)
        coarse = nest.coarser(level, together) if together > 1 else nest
        feed = cls(nest, coarse, level, together, as_expr(prefetch))
        if buffers is None or feed.total.constant == 1:
            return feed
        return replace(feed, ahead=minimum(prefetch, feed.shortest * (buffers - 1)))

    @property
    def total(self) -> Expr:
        """Return how many tiles there are."""
        return self.coarse.iterations(self.level)

    @property
    def shortest(self) -> Expr:
        """Return how many steps read a tile, for the tile that the fewest read."""
        inside = self.nest.inside(self.level)
        if self.together == 1:
            return inside
        count, blocks = (nest.loops[self.level - 1][1] for nest in (self.nest, self.coarse))
        return minimum(self.together, count - (blocks - 1) * self.together) * inside

    def number(self, t: Expr) -> Expr:
        """Return the number of the tile that step t reads."""
        if self.together == 1:
            return self.nest.number(t, self.level)
        outer = self.nest.number(t, self.level - 1)
        blocks = self.coarse.loops[self.level - 1][1]
        return outer * blocks + self._inner(t) // self.together

    def first(self, t: Expr) -> Expr:
        """Return whether step t is the first one that reads its tile."""
        first = self.nest.first(t, self.level)
        if self.together == 1:
            return first
        return first * less(self._inner(t) % self.together, 1)

    def last(self, t: Expr) -> Expr:
        """Return whether step t is the last one that reads its tile."""
        last = self.nest.last(t, self.level)
        if self.together == 1:
            return last
        _, count = self.nest.loops[self.level - 1]
        inner = self._inner(t)
        full = less(self.together - 2, inner % self.together)
        return last * maximum(full, less(count - 2, inner))

    def indices(self, number: ExprLike) -> Indices:
        """Return the loop indices of a tile; of iterations together, their block's."""
        return self.coarse.indices(number, self.level)

    def _inner(self, t: Expr) -> Expr:
        name, _ = self.nest.loops[self.level - 1]
        return self.nest.indices(self.nest.number(t, self.level), self.level)[name]
