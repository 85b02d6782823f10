"""The tiled kernel of a product of two activations, matrix by matrix of a stack.

A step multiplies one piece of depth of one (matrix, row tile, column tile): it loads what it does
not have, accumulates, and after the last piece requantises and stores the tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from codegen.borders import DTYPE_CODE, Border, Box, dma
from codegen.expr import Expr, as_expr, less, param
from codegen.kernel import (
    STANDARD_PARAMS,
    Comment,
    Guard,
    Instr,
    Kernel,
    Node,
    instr,
    spm_fields,
)
from codegen.schedule import Schedule
from codegen.tiles import Handshake, ScratchpadPlan, Span, Stage, once, pipelined, tile_span

RECORD_BYTES = 12
SCALARS = ("a_zp", "b_zp", "out_zp", "lo", "hi")
_PARAMS_FULL = 8


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand in DRAM: a stack of matrices whose axes are the result's and the depth k.

    `k_first`: k runs along the rows (the border's width), else along the columns (its channels).
    """

    border: Border
    k_first: bool

    @property
    def extent(self) -> tuple[int, int]:
        """Return (size of the result's axis, depth)."""
        sides = self.border.width, self.border.channels
        return (sides[1], sides[0]) if self.k_first else sides


@dataclass(frozen=True, slots=True)
class MatmulShape:
    """All that the code depends on, but the schedule.

    The target is (matrices, m, n); an operand of one matrix serves all. `per_channel`: there is a
    parameter record for each of the n columns, else one tile's worth of equal ones.
    """

    a: Matrix
    b: Matrix
    target: Border
    rounding: int
    per_channel: bool

    @property
    def extent(self) -> tuple[int, int, int]:
        """Return (m, k, n)."""
        return self.target.width, self.a.extent[1], self.target.channels


class Reuse:
    """Which steps load a new tile of an operand: every `period`-th, or only the first (None)."""

    def __init__(self, period: int | None, steps: Expr) -> None:
        """Keep the period."""
        self.period = period
        self.uses = steps // period if period is not None else as_expr(1)

    def use(self, u: Expr) -> Expr:
        """Return the running number of the tile that step `u` reads."""
        return u // self.period if self.period is not None else as_expr(0)

    def fresh(self, u: Expr) -> Expr:
        """Return 1 where step `u` is the first to read its tile."""
        return less(u % self.period, 1) if self.period is not None else less(u, 1)

    def spent(self, u: Expr) -> Expr:
        """Return 1 where step `u` is the last to read its tile and another follows."""
        if self.period is None:
            return as_expr(0)
        return less(self.period - 2, u % self.period)


class MatmulLayout:
    """Tile counts, reuse and scratchpad offsets of one (shape, schedule) pair."""

    def __init__(self, shape: MatmulShape, s: Schedule) -> None:
        """Lay the buffers out; nothing is checked here."""
        m, k, n = shape.extent
        self.m_tiles, self.k_tiles, self.n_tiles = -(-m // s.tile_w), -(-k // s.tile_ic), -(
            -n // s.tile_oc
        )  # fmt: skip
        self.n_outer = s.order == "channel_outer"
        self.a_period = self._period(shape.a, self.m_tiles, self.n_tiles, not self.n_outer)
        self.b_period = self._period(shape.b, self.n_tiles, self.m_tiles, self.n_outer)
        records = n if shape.per_channel else min(s.tile_oc, n)
        self.a_bytes, self.b_bytes = s.tile_w * s.tile_ic, s.tile_oc * s.tile_ic
        self.out_bytes = s.tile_w * s.tile_oc
        plan = ScratchpadPlan()
        self.params_bytes = RECORD_BYTES * records
        self.params = plan.take("params", self.params_bytes)
        self.a = plan.take("a", s.in_buffers * self.a_bytes)
        self.b = plan.take("b", s.in_buffers * self.b_bytes)
        self.out = plan.take("out", s.out_buffers * self.out_bytes)
        self.spm_bytes = plan.used

    def _period(self, matrix: Matrix, own: int, other: int, outer: bool) -> int | None:
        """Return after how many steps another tile of an operand is needed; None: never."""
        if self.k_tiles > 1:
            return 1
        if own > 1:
            return other if outer else 1
        return None if matrix.border.height == 1 else other


class MatmulKernel:
    """Builds the kernel of one (shape, schedule) pair."""

    def __init__(self, shape: MatmulShape, s: Schedule) -> None:
        """Derive step counts and handshakes."""
        self.shape, self.s, self.at = shape, s, MatmulLayout(shape, s)
        at, stack = self.at, param("row_end") - param("row_begin")
        self.tiles = stack * (at.m_tiles * at.n_tiles)
        self.steps = self.tiles * at.k_tiles
        self.reuse = {"a": Reuse(at.a_period, self.steps), "b": Reuse(at.b_period, self.steps)}
        self.full = {
            "a": Handshake(0, 1, s.in_buffers, self.reuse["a"].uses),
            "b": Handshake(2, 3, s.in_buffers, self.reuse["b"].uses),
        }
        self.acc = Handshake(4, 5, s.acc_buffers, self.tiles)
        self.outputs = Handshake(6, 7, s.out_buffers, self.tiles)

    # --- which step works on what -----------------------------------------------------------------

    def tile(self, t: Expr) -> tuple[Span, Span, Span]:
        """Return (matrix, rows, columns) of result tile `t`."""
        at, (m, _, n) = self.at, self.shape.extent
        inner = at.m_tiles if at.n_outer else at.n_tiles
        per_matrix = at.m_tiles * at.n_tiles
        outer_index, inner_index = t % per_matrix // inner, t % inner
        m_index, n_index = (inner_index, outer_index) if at.n_outer else (outer_index, inner_index)
        first = param("row_begin") + t // per_matrix
        return (
            Span(first, as_expr(1)),
            tile_span(m_index, self.s.tile_w, 0, m),
            tile_span(n_index, self.s.tile_oc, 0, n),
        )

    def depth(self, u: Expr) -> Span:
        """Return the piece of depth of step `u`."""
        return tile_span(u % self.at.k_tiles, self.s.tile_ic, 0, self.shape.extent[1])

    def buffer(self, name: str, u: Expr) -> Expr:
        """Return the address of the tile of an operand that step `u` reads."""
        start, size = (self.at.a, self.at.a_bytes) if name == "a" else (self.at.b, self.at.b_bytes)
        return param("spm") + start + self.full[name].slot(self.reuse[name].use(u)) * size

    # --- commands ---------------------------------------------------------------------------------

    def load(self, u: Expr) -> tuple[Node, ...]:
        """Return the loads of what step `u` is the first to read."""
        matrix, rows, columns = self.tile(u // self.at.k_tiles)
        nodes: list[Node] = []
        for name, source, side, tile, place in (
            ("a", self.shape.a, rows, self.s.tile_w, "in0"),
            ("b", self.shape.b, columns, self.s.tile_oc, "in1"),
        ):
            which = Span(as_expr(0), as_expr(1)) if source.border.height == 1 else matrix
            depth, reuse = self.depth(u), self.reuse[name]
            box, extent = Box(which, side, depth), (1, tile, self.s.tile_ic)
            if source.k_first:
                box, extent = Box(which, depth, side), (1, self.s.tile_ic, tile)
            command = dma(
                "LOAD", source.border, box, param(place), self.buffer(name, u), extent,
                wait=self.full[name].acquire(reuse.use(u)), post=self.full[name].filled,
            )  # fmt: skip
            nodes.append(Guard(reuse.fresh(u), (command,)))
        return tuple(nodes)

    def _load_params(self) -> Instr:
        return instr(
            "LOAD", dram=param("params"), spm_addr=param("spm") + self.at.params,
            n0=1, n1=1, n2=1, run=self.at.params_bytes, post=1 << _PARAMS_FULL,
        )  # fmt: skip

    def compute(self, u: Expr) -> tuple[Node, ...]:
        """Return the product of step `u`, and the requantisation after the last piece of depth."""
        t, i = u // self.at.k_tiles, u % self.at.k_tiles
        _, rows, columns = self.tile(t)
        first, last = less(i, 1), less(self.at.k_tiles - 2, i)
        acc = param("acc") + self.acc.slot(t) * (self.s.tile_w * self.s.tile_oc)
        wait, post = first * self.acc.acquire(t), last * self.acc.filled
        for name, reuse in self.reuse.items():
            wait = wait + reuse.fresh(u) * self.full[name].filled
            post = post + reuse.spent(u) * self.full[name].release(reuse.use(u))
        a, b = self.shape.a, self.shape.b
        a_row, a_col = (1, self.s.tile_w) if a.k_first else (self.s.tile_ic, 1)
        b_col, b_row = (1, self.s.tile_oc) if b.k_first else (self.s.tile_ic, 1)
        product = instr(
            "MATMUL", wait=wait, post=post, accumulate=less(0, i),
            a_type=DTYPE_CODE[a.border.dtype], b_type=DTYPE_CODE[b.border.dtype],
            a_addr=self.buffer("a", u), a_row_stride=a_row, a_col_stride=a_col,
            b_addr=self.buffer("b", u), b_row_stride=b_row, b_col_stride=b_col,
            m=rows.size, k=self.depth(u).size, n=columns.size,
            a_zp=param("a_zp"), b_zp=param("b_zp"), acc_addr=acc, acc_stride=self.s.tile_oc,
        )  # fmt: skip
        return product, Guard(last, (self._requantise(t, acc, rows, columns),))

    def _requantise(self, t: Expr, acc: Expr, rows: Span, columns: Span) -> Instr:
        params = param("spm") + self.at.params
        if self.shape.per_channel:
            params = params + columns.start * RECORD_BYTES
        return instr(
            "REQUANT",
            wait=self.acc.filled + self.outputs.acquire(t) + less(t, 1) * (1 << _PARAMS_FULL),
            post=self.acc.release(t) + self.outputs.filled,
            acc_addr=acc, acc_stride=self.s.tile_oc, h=1, w=rows.size, c=columns.size,
            **spm_fields("out", self._result(t), self.at.out_bytes, self.s.tile_oc),
            out_type=DTYPE_CODE[self.shape.target.dtype], params=params,
            rounding=self.shape.rounding,
            out_zp=param("out_zp"), lo=param("lo"), hi=param("hi"),
        )  # fmt: skip

    def _result(self, t: Expr) -> Expr:
        return param("spm") + self.at.out + self.outputs.slot(t) * self.at.out_bytes

    def store(self, u: Expr) -> tuple[Node, ...]:
        """Return the store of the tile that step `u` finished, if it did."""
        t, i = u // self.at.k_tiles, u % self.at.k_tiles
        command = dma(
            "STORE", self.shape.target, Box(*self.tile(t)), param("out0"), self._result(t),
            (1, self.s.tile_w, self.s.tile_oc),
            wait=self.outputs.filled, post=self.outputs.release(t),
        )  # fmt: skip
        return (Guard(less(self.at.k_tiles - 2, i), (command,)),)

    def build(self, name: str, doc: str) -> Kernel:
        """Return the kernel."""
        ahead = min(1, self.s.in_buffers - 1)
        stages = (
            Stage(self.load, ahead), once(self._load_params(), ahead),
            Stage(self.store, -1), Stage(self.compute),
        )  # fmt: skip
        body = pipelined(self.steps, stages, ahead, self.s.unroll)
        params = (*STANDARD_PARAMS, "in0", "in1", "out0", "params", *SCALARS)
        return Kernel(name, params, (Comment(self.s.describe()), *body), doc)
