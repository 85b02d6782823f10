"""Random search: every point that was not proposed yet is as likely as any other."""

from __future__ import annotations

from codegen.space import Point
from tvm_vnpu.tuner.searchers.base import Searcher


class RandomSearcher(Searcher):
    """Proposes random points."""

    def propose(self, count: int) -> list[Point]:
        """Return random new points."""
        return self.fresh(count)
