"""Rolling input of a convolution kernel: rows that windows share stay in SPM, in a ring of rows.

Each load brings only the rows that no earlier one has. `E(k)` is the end of the rows that loads 0
to k have brought, so load k > 0 brings [E(k - 1), E(k)): as many rows as the outputs of a load step
over, `advance`, but for the last one. The ring has a multiple of that, and row r lies at
(r - E(0)) mod ring: no load wraps around. The first load, a whole window, ends where the ring does.
"""

from __future__ import annotations

from codegen.borders import Box, dma
from codegen.conv_inputs import InputTiles
from codegen.conv_steps import INPUT_RESIDENT, ConvSteps, Step, unless
from codegen.expr import Expr, ExprLike, as_expr, ceil_div, less, maximum, minimum, param, select
from codegen.kernel import Guard, Node
from codegen.tiles import Handshake, Span


class RollingInput(InputTiles):
    """Input tiles follow one another down the rows of the whole width."""

    def __init__(self, steps: ConvSteps) -> None:
        """Count the loads: windows that reach into the padding below may have no new rows."""
        super().__init__(steps)
        self.loads = minimum(self.feed.total, self._blocks_with_new_rows())
        self.shake = Handshake(0, 1, self.s.in_buffers, self.loads)

    def load(self, t: Expr) -> tuple[Node, ...]:
        """Return the load of the rows that step `t` is the first to read."""
        return (Guard(unless(INPUT_RESIDENT, self._is_new(t)), self._load(self.feed.number(t))),)

    def wait(self, step: Step) -> Expr:
        """Return what the step waits for: the rows that it is the first to read."""
        return unless(INPUT_RESIDENT, self._is_new(step.t) * self.shake.filled)

    def _is_new(self, t: Expr) -> Expr:
        return self.feed.first(t) * less(self.feed.number(t), self.loads)

    def _load(self, use: Expr) -> tuple[Node, ...]:
        box, _, _ = self._window(self._loaded(use))
        later, end = less(0, use), box.rows.start + box.rows.size
        start = select(later, self._end_before(use), box.rows.start)
        rows = Span(start, end - start)
        row_bytes = self.at.in_tile[1] * self.at.in_tile[2]
        slot = (use - 1) % (self.at.ring_rows // self.at.advance) * self.at.advance
        place = select(later, slot, self.at.ring_rows - rows.size) * row_bytes
        command = dma(
            "LOAD", self.shape.source, Box(rows, box.cols, box.chans), param("in0"),
            param("spm") + self.at.input + place, self.at.in_tile,
            wait=self.shake.acquire(use), post=self.shake.filled,
        )  # fmt: skip
        return (command,)

    def _end_before(self, use: Expr) -> Expr:
        """Return E(use - 1), where there is a load `use` > 0: then no padding cuts it short."""
        axis = self.shape.rows
        first_row = self._loaded(use).rows.start
        return (first_row - 1) * axis.stride + (axis.reach - axis.pad)

    def _blocks_with_new_rows(self) -> Expr:
        """Return k where E(k - 1) would be the first that reaches the end of the input."""
        axis, rows = self.shape.rows, self.steps.rows
        left = axis.size - param("row_begin") * axis.stride
        left = left + ((rows.missing + 1) * axis.stride + axis.pad - axis.reach)
        return maximum(ceil_div(left, self.at.advance), 1)

    def _place(self, step: Step, box: Box) -> tuple[Expr, ExprLike, ExprLike]:
        first, _, _ = self._window(self._loaded(as_expr(0)))
        start = box.rows.start - (first.rows.start + first.rows.size)
        ring = self.at.ring_rows
        return param("spm") + self.at.input + box.chans.start, ring, start % ring
