"""Grid search: the points of the space in its own order, for spaces that are small."""

from __future__ import annotations

from itertools import islice

from codegen.space import Point
from tvm_vnpu.tuner.searchers.base import Searcher, Subject


class GridSearcher(Searcher):
    """Proposes all points in order."""

    def __init__(self, subject: Subject) -> None:
        """Start at the first point."""
        super().__init__(subject)
        self._points = self.space.points()

    def propose(self, count: int) -> list[Point]:
        """Return the next points."""
        return list(islice(self._points, count))
