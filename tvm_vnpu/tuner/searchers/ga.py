"""A genetic algorithm: the best points so far are parents; children mix knobs and mutate."""

from __future__ import annotations

from codegen.space import Point
from tvm_vnpu.tuner.searchers.base import Results, Searcher, Subject

PARENTS = 12
MUTATION = 0.3
"""The probability that a child's knob moves after the crossing."""
_ATTEMPTS = 30


class GaSearcher(Searcher):
    """Proposes random points first, then children of the best."""

    def __init__(self, subject: Subject) -> None:
        """Start without parents."""
        super().__init__(subject)
        self._measured: list[tuple[int, Point]] = []

    def propose(self, count: int) -> list[Point]:
        """Return random points until there are parents, then children."""
        if len(self._measured) < 2:
            return self.fresh(count)
        children: list[Point] = []
        while len(children) < count:
            child = self._child()
            if child is None:
                return children + self.fresh(count - len(children))
            self.seen.add(child)
            children.append(child)
        return children

    def update(self, results: Results) -> None:
        """Keep the best points as parents."""
        super().update(results)
        self._measured += [(cycles, point) for point, cycles in results if cycles is not None]
        self._measured = sorted(self._measured)[:PARENTS]

    def _child(self) -> Point | None:
        """Return a new legal child; None where chance finds none."""
        for _ in range(_ATTEMPTS):
            mother, father = self._parent(), self._parent()
            mask = self.rng.integers(0, 2, len(mother))
            mixed = tuple(m if bit else f for m, f, bit in zip(mother, father, mask))
            child = self.canonical(mixed) or mother
            if child in self.seen or self.rng.random() < MUTATION:
                child = self.space.neighbour(child, self.rng)
            if child not in self.seen:
                return child
        return None

    def _parent(self) -> Point:
        """Return one of the best points, better ones more likely: a tournament of two."""
        first, second = self.rng.integers(0, len(self._measured), 2)
        return self._measured[min(first, second)][1]
