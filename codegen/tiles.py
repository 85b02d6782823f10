"""Building blocks of tiled kernels: spans of tiles and windows, handshakes, scratchpad layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from codegen.expr import Expr, ExprLike, as_expr, ceil_div, less, maximum, minimum, param, var
from codegen.kernel import Guard, Loop, Node

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Span:
    """A run of rows, columns or channels."""

    start: Expr
    size: Expr


def tile_span(index: ExprLike, tile: int, begin: ExprLike, end: ExprLike) -> Span:
    """Return tile `index` of [begin, end): `tile` long, the last one shorter."""
    begin, end = as_expr(begin), as_expr(end)
    start = begin + as_expr(index) * tile
    length = (end - begin).constant
    if tile == 1 or (length is not None and length % tile == 0):
        return Span(start, as_expr(tile))
    return Span(start, minimum(tile, end - start))


@dataclass(frozen=True, slots=True)
class RowTiles:
    """Tiles of the kernel's row range: `tile` rows each, but `first` in the first one.

    The last tile has what is left. `rows` is all that the range can have. A `first` of 0 stands
    for `tile`.
    """

    rows: int
    tile: int
    first: int = 0

    @property
    def count(self) -> Expr:
        """Return how many tiles the range has: at least one."""
        if self.tile >= self.rows:
            return as_expr(1)
        rows = param("row_end") - param("row_begin")
        return maximum(ceil_div(rows + self.missing, self.tile), 1)

    def span(self, index: Expr, together: int = 1) -> Span:
        """Return tile `index`, or block `index` of `together` tiles each."""
        begin, end, tile = param("row_begin"), param("row_end"), self.tile * together
        if self.tile >= self.rows or tile - self.missing >= self.rows:
            return Span(begin, end - begin)
        if not self.missing:
            return tile_span(index, tile, begin, end)
        whole = begin + index * tile - self.missing
        start = maximum(whole, begin)
        return Span(start, minimum(whole + tile, end) - start)

    @property
    def missing(self) -> int:
        """Return by how many rows the first tile is shorter than the others."""
        return self.tile - self.first if self.first else 0


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a window operator, in elements."""

    size: int
    out: int
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0

    @property
    def reach(self) -> int:
        """Return the extent of the dilated kernel."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def overlaps(self) -> bool:
        """Return whether successive windows share elements."""
        return self.reach > self.stride and self.out > 1

    @property
    def elements_read(self) -> int:
        """Return how many of the elements some window really reads."""
        taps = np.arange(self.kernel) * self.dilation - self.pad
        touched = (np.arange(self.out)[:, None] * self.stride + taps).ravel()
        return len(np.unique(touched[(touched >= 0) & (touched < self.size)]))

    def thinned(self) -> Axis:
        """Return the axis that sees only the elements read, where a 1-wide kernel skips some."""
        if self.kernel > 1 or self.stride == 1 or self.pad or self.elements_read < self.out:
            return self
        return Axis(self.out, self.out)

    def in_tile(self, tile: int) -> int:
        """Return how many input elements a tile of outputs can need."""
        return min(self.size, (tile - 1) * self.stride + self.reach)

    def window(self, out: Span) -> tuple[Span, Expr]:
        """Return the input span that `out` reads and the padding before it."""
        first = out.start * self.stride - self.pad
        reads_past_the_end = (self.out - 1) * self.stride + self.reach - self.pad > self.size
        if self.pad == 0 and not reads_past_the_end:
            return Span(first, (out.size - 1) * self.stride + self.reach), as_expr(0)
        last = (out.start + out.size - 1) * self.stride + (self.reach - self.pad)
        if self.pad == 0:
            start, before = first, as_expr(0)
        else:
            start, before = maximum(first, 0), maximum(self.pad - out.start * self.stride, 0)
        end = minimum(last, self.size) if reads_past_the_end else last
        return Span(start, end - start), before


@dataclass(frozen=True, slots=True)
class Handshake:
    """Two semaphores that pass `buffers` rotating buffers between a producer and a consumer.

    `full` and `free` are semaphore numbers relative to the kernel's base. Use k of the buffers
    fills slot k mod buffers. `total` is how many uses there are.
    """

    full: int
    free: int
    buffers: int
    total: Expr

    def slot(self, use: ExprLike) -> Expr:
        """Return the buffer that use k occupies."""
        return as_expr(use) % self.buffers

    def acquire(self, use: ExprLike) -> Expr:
        """Return the producer's wait mask: from use `buffers` on, the buffer must be free."""
        return less(self.buffers - 1, use) * (1 << self.free)

    @property
    def filled(self) -> int:
        """Return the mask that the producer posts and the consumer waits for."""
        return 1 << self.full

    def release(self, use: ExprLike) -> Expr:
        """Return the consumer's post mask: only where a later use waits for the buffer."""
        return less(as_expr(use) + self.buffers, self.total) * (1 << self.free)


@dataclass(slots=True)
class ScratchpadPlan:
    """A bump allocator of one kernel's scratchpad, in bytes from the kernel's base."""

    used: int = 0
    blocks: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, size: int) -> int:
        """Reserve `size` bytes and return their offset."""
        offset = self.used
        self.blocks[name] = offset
        self.used = offset + align(size)
        return offset


def align(size: int) -> int:
    """Round a size up to the buffer alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


Emit = Callable[[Expr], tuple[Node, ...]]


@dataclass(frozen=True, slots=True)
class Stage:
    """Commands of every step, issued `ahead` steps before its computation (or after, below 0)."""

    emit: Emit
    ahead: ExprLike = 0


def once(node: Node, ahead: ExprLike, step: int = 0) -> Stage:
    """Return the stage of what `step` is the first to need and all later ones share."""
    due = (lambda t: less(t, 1)) if step == 0 else lambda t: less(t, step + 1) * less(step - 1, t)
    return Stage(lambda t: (Guard(due(t), (node,)),), ahead)


def pipelined(steps: Expr, stages: tuple[Stage, ...], lead: int, unroll: int) -> tuple[Node, ...]:
    """Return a loop that issues the stages of all steps, software-pipelined.

    Iteration t computes step t - `lead`; no stage runs further ahead. The DMA engines serve
    commands in issue order: with its loads ahead of its computation, and the store behind that of
    the next step, neither has to wait for it.
    """
    t, behind = var("t"), 0
    body: list[Node] = []
    for stage in stages:
        ahead = as_expr(stage.ahead)
        step = t - (as_expr(lead) - ahead)
        started = as_expr(1) if ahead == as_expr(lead) else less(lead - 1 - ahead, t)
        body.append(Guard(started, (Guard(less(step, steps), stage.emit(step)),)))
        behind = max(behind, -(ahead.constant or 0))
    return (Loop("t", steps + (lead + behind), tuple(body), unroll),)
