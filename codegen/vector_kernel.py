"""The tiled kernel of vector operators: element-wise, pooling, conversion.

Each step loads a tile of every input, runs one vector command and stores a tile of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codegen.borders import Border, Box, dma
from codegen.expr import Expr, as_expr, less, maximum, minimum, param
from codegen.kernel import Instr, Node, instr
from codegen.schedule import Schedule
from codegen.tiles import (
    Axis,
    Handshake,
    RowTiles,
    ScratchpadPlan,
    Span,
    Stage,
    once,
    pipelined,
    tile_span,
)

_PARAMS_FULL = 4
Tile = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Source:
    """One input: its form in DRAM and how output rows and columns map to its own.

    An axis of size 1 under a larger output is broadcast, unless a window slides over it or it is
    padded; so is a single channel. `chans`: how channels map, where not one to one. `order`: which
    axis of the output each of the input's (rows, columns, channels) follows. `padded`: tiles of
    the output may lie in the padding; they read one element and must not use it. `begin`: the
    kernel parameter, if any, that says how many bytes the first element read lies from the start.
    """

    border: Border
    rows: Axis
    cols: Axis
    chans: Axis | None = None
    order: Tile = (0, 1, 2)
    padded: bool = False
    begin: str = ""

    @property
    def broadcasts_rows(self) -> bool:
        """Return whether one row serves all output rows."""
        return self._broadcasts(self.rows)

    @property
    def broadcasts_cols(self) -> bool:
        """Return whether one column serves all output columns."""
        return self._broadcasts(self.cols)

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the elements that some window really reads."""
        rows = 1 if self.broadcasts_rows else self.rows.elements_read
        cols = 1 if self.broadcasts_cols else self.cols.elements_read
        channels = self.chans.elements_read if self.chans else self.border.channels
        return rows * cols * channels * self.border.item

    def in_tile(self, tile: Tile) -> Tile:
        """Return the extent of the buffer that serves a tile of the output."""
        height, width, channels = (tile[axis] for axis in self.order)
        rows = 1 if self.broadcasts_rows else self.rows.in_tile(height)
        cols = 1 if self.broadcasts_cols else self.cols.in_tile(width)
        return rows, cols, self.chans.in_tile(channels) if self.chans else channels

    def window(self, out: Box) -> tuple[Box, Expr, Expr, Expr]:
        """Return what a tile of the output reads, and the padding before it along each axis."""
        spans = (out.rows, out.cols, out.chans)
        one, zero = Span(as_expr(0), as_expr(1)), as_expr(0)
        rows, cols, chans = (spans[axis] for axis in self.order)
        above = left = front = zero
        rows, above = (one, zero) if self.broadcasts_rows else self._window(self.rows, rows)
        cols, left = (one, zero) if self.broadcasts_cols else self._window(self.cols, cols)
        if self.chans:
            chans, front = self._window(self.chans, chans)
        elif self.border.channels == 1:
            chans = one
        return Box(rows, cols, chans), above, left, front

    def _broadcasts(self, axis: Axis) -> bool:
        return axis.size == 1 < axis.out and axis.kernel == 1 and not self.padded

    def _window(self, axis: Axis, out: Span) -> tuple[Span, Expr]:
        span, before = axis.window(out)
        if not self.padded:
            return span, before
        return Span(minimum(span.start, axis.size - 1), maximum(span.size, 1)), before


def same_extent(border: Border, target: Border) -> Source:
    """Return an input that is read element for element (or broadcast)."""
    return Source(border, Axis(border.height, target.height), Axis(border.width, target.width))


@dataclass(frozen=True, slots=True)
class VectorShape:
    """All that tiling depends on. `params_bytes`: constant records to keep in SPM.

    `row_offset`, `col_offset` and `channel_offset` place the result within the target (concat).
    `extent`: rows, columns and channels of the result.
    """

    sources: tuple[Source, ...]
    target: Border
    extent: Tile
    params_bytes: int = 0
    row_offset: int = 0
    col_offset: int = 0
    channel_offset: int = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile in SPM: address, extent of its buffer, and where it lies in the tensor."""

    border: Border
    address: Expr
    tile: Tile
    box: Box
    pad_top: Expr
    pad_left: Expr
    pad_front: Expr


@dataclass(frozen=True, slots=True)
class VectorStep:
    """What a step's command works on, and the semaphores that it must wait for and post."""

    inputs: tuple[Operand, ...]
    output: Operand
    params: Expr
    wait: Expr
    post: Expr


EmitVector = Callable[[VectorStep], "Instr | tuple[Node, ...]"]


def in_tile(source: Source, s: Schedule, channels: int) -> Tile:
    """Return the extent of an input's buffer for a schedule."""
    rows, cols, depth = source.in_tile((s.tile_h, s.tile_w, s.tile_oc))
    one_channel = source.chans is None and source.border.channels == 1 < channels
    return rows, cols, 1 if one_channel else depth


class VectorKernel:
    """Builds the kernel body of one (shape, schedule) pair."""

    def __init__(self, shape: VectorShape, schedule: Schedule, emit: EmitVector) -> None:
        """Lay out SPM; `emit` makes the command of a step."""
        self.shape, self.s, self.emit = shape, schedule, emit
        height, width, channels = shape.extent
        self.col_tiles = -(-width // schedule.tile_w)
        self.channel_tiles = -(-channels // schedule.tile_oc)
        planes = self.col_tiles * self.channel_tiles
        self.rows = RowTiles(height, schedule.tile_h)
        self.steps = self.rows.count * planes
        self.inputs = Handshake(0, 1, schedule.in_buffers, self.steps)
        self.outputs = Handshake(2, 3, schedule.out_buffers, self.steps)
        self.in_tiles = [in_tile(source, schedule, channels) for source in shape.sources]
        self.out_tile = (schedule.tile_h, schedule.tile_w, schedule.tile_oc)
        plan = ScratchpadPlan()
        self.params_at = plan.take("params", shape.params_bytes)
        self.in_at = [
            plan.take(f"in{index}", schedule.in_buffers * _bytes(source.border, tile))
            for index, (source, tile) in enumerate(zip(shape.sources, self.in_tiles, strict=True))
        ]
        size = _bytes(shape.target, self.out_tile)
        self.out_at = plan.take("out", schedule.out_buffers * size)
        self.spm_bytes = plan.used

    def box(self, t: Expr) -> Box:
        """Return the output tile of step `t`."""
        channel, spatial = t % self.channel_tiles, t // self.channel_tiles
        height, width, channels = self.shape.extent
        return Box(
            self.rows.span(spatial // self.col_tiles),
            tile_span(spatial % self.col_tiles, self.s.tile_w, 0, width),
            tile_span(channel, self.s.tile_oc, 0, channels),
        )

    def operand(self, index: int, t: Expr) -> Operand:
        """Return input `index` of step `t`."""
        source, tile = self.shape.sources[index], self.in_tiles[index]
        buffer = self.inputs.slot(t) * _bytes(source.border, tile)
        address = param("spm") + self.in_at[index] + buffer
        return Operand(source.border, address, tile, *source.window(self.box(t)))

    def result(self, t: Expr) -> Operand:
        """Return the output of step `t`."""
        buffer = self.outputs.slot(t) * _bytes(self.shape.target, self.out_tile)
        address = param("spm") + self.out_at + buffer
        zero = as_expr(0)
        return Operand(self.shape.target, address, self.out_tile, self.box(t), zero, zero, zero)

    def load(self, t: Expr) -> tuple[Node, ...]:
        """Return the loads of step `t`: the first waits for the buffers, the last reports."""
        nodes: list[Node] = []
        for index in range(len(self.shape.sources)):
            operand, begin = self.operand(index, t), self.shape.sources[index].begin
            dram = param(f"in{index}") + (param(begin) if begin else 0)
            last = index + 1 == len(self.shape.sources)
            nodes.append(
                dma(
                    "LOAD", operand.border, operand.box, dram, operand.address, operand.tile,
                    wait=self.inputs.acquire(t) if index == 0 else 0,
                    post=self.inputs.filled if last else 0,
                )
            )  # fmt: skip
        return tuple(nodes)

    def _load_params(self) -> Instr:
        return instr(
            "LOAD", dram=param("params"), spm_addr=param("spm") + self.params_at,
            n0=1, n1=1, n2=1, run=self.shape.params_bytes, post=1 << _PARAMS_FULL,
        )  # fmt: skip

    def compute(self, t: Expr) -> tuple[Node, ...]:
        """Return the vector command (or several) of step `t`."""
        wait = self.outputs.acquire(t) + self.inputs.filled
        if self.shape.params_bytes:
            wait = wait + less(t, 1) * (1 << _PARAMS_FULL)
        step = VectorStep(
            tuple(self.operand(index, t) for index in range(len(self.shape.sources))),
            self.result(t),
            param("spm") + self.params_at,
            wait,
            self.inputs.release(t) + self.outputs.filled,
        )
        made = self.emit(step)
        return made if isinstance(made, tuple) else (made,)

    def store(self, t: Expr) -> tuple[Node, ...]:
        """Return the store of step `t`, shifted to the result's place in the target."""
        result, shape = self.result(t), self.shape
        box = Box(
            _shift(result.box.rows, shape.row_offset),
            _shift(result.box.cols, shape.col_offset),
            _shift(result.box.chans, shape.channel_offset),
        )
        command = dma(
            "STORE", shape.target, box, param("out0"), result.address, self.out_tile,
            wait=self.outputs.filled, post=self.outputs.release(t),
        )  # fmt: skip
        return (command,)

    def body(self) -> tuple[Node, ...]:
        """Return the kernel's nodes."""
        ahead = min(self.s.prefetch, self.s.in_buffers - 1)
        stages = [Stage(self.load, ahead), Stage(self.store, -1), Stage(self.compute)]
        if self.shape.params_bytes:
            stages.insert(1, once(self._load_params(), ahead))
        return pipelined(self.steps, tuple(stages), ahead, self.s.unroll)


def _shift(span: Span, offset: int) -> Span:
    return Span(span.start + offset, span.size)


def _bytes(border: Border, tile: Tile) -> int:
    return tile[0] * tile[1] * tile[2] * border.item
