"""Building blocks of tiled kernels: spans of tiles and windows, handshakes, scratchpad layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from codegen.expr import Expr, ExprLike, as_expr, less, maximum, minimum, var
from codegen.kernel import Guard, Loop, Node

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Span:
    """A run of rows, columns or channels."""

    start: Expr
    size: Expr


def tile_span(index: ExprLike, tile: int, begin: ExprLike, end: ExprLike) -> Span:
    """Return tile `index` of [begin, end): `tile` long, the last one shorter."""
    start = as_expr(begin) + as_expr(index) * tile
    return Span(start, minimum(tile, as_expr(end) - start))


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

    def in_tile(self, tile: int) -> int:
        """Return how many input elements a tile of outputs can need."""
        return min(self.size, (tile - 1) * self.stride + self.reach)

    def window(self, out: Span) -> tuple[Span, Expr]:
        """Return the input span that `out` reads and the padding before it."""
        first = out.start * self.stride - self.pad
        last = (out.start + out.size - 1) * self.stride + (self.reach - self.pad)
        if self.pad == 0:
            start, before = first, as_expr(0)
        else:
            start, before = maximum(first, 0), maximum(self.pad - out.start * self.stride, 0)
        reads_past_the_end = (self.out - 1) * self.stride + self.reach - self.pad > self.size
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


def pipelined(total: Expr, load: Emit, compute: Emit, store: Emit, unroll: int = 1) -> tuple[Node, ...]:
    """Return `total` steps of load, compute and store, software-pipelined.

    The DMA engines serve commands in issue order, so step t issues the load of step t + 1 and the
    store of step t - 1 before its own computation: neither has to wait for it.
    """
    t = var("t")
    if total.constant == 1:
        zero = as_expr(0)
        return (*load(zero), *compute(zero), *store(zero))
    ahead, behind = load(t + 1), store(t - 1)
    body: list[Node] = []
    if ahead:
        body.append(Guard(less(t + 1, total), ahead))
    if behind:
        body.append(Guard(less(0, t), behind))
    return (
        *load(as_expr(0)),
        Loop("t", total, (*body, *compute(t)), unroll),
        *store(total - 1),
    )

