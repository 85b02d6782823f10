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


def row_span(index: ExprLike, tile: int, rows: int) -> Span:
    """Return row tile `index` of the kernel's row range; `rows` is all that there can be."""
    begin, end = param("row_begin"), param("row_end")
    if tile >= rows:
        return Span(begin, end - begin)
    return tile_span(index, tile, begin, end)


def row_tiles(tile: int, rows: int) -> Expr:
    """Return how many row tiles the kernel's row range has."""
    if tile >= rows:
        return as_expr(1)
    return ceil_div(param("row_end") - param("row_begin"), tile)


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


def pipelined(
    total: Expr, load: Emit, compute: Emit, store: Emit, unroll: int = 1, prefetch: bool = True
) -> tuple[Node, ...]:
    """Return `total` steps of load, compute and store, software-pipelined.

    The DMA engines serve commands in issue order, so step t issues the load of step t + 1 and the
    store of step t - 1 before its own computation: neither has to wait for it. Without `prefetch`
    (a lone buffer, which the next load must not wait for before its reader is issued) step t
    loads for itself.
    """
    t = var("t")
    stored = Guard(less(0, t), store(t - 1))
    if prefetch:
        body: tuple[Node, ...] = (Guard(less(t + 1, total), load(t + 1)), stored, *compute(t))
    else:
        body = (Guard(less(0, t), load(t)), stored, *compute(t))
    return (*load(as_expr(0)), Loop("t", total, body, unroll), *store(total - 1))
