"""Pools whose cells are uneven: each piece of even cells from its own slice, then joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from codegen.borders import identity_scalars
from codegen.graph import Tensor
from codegen.ops.concat import Concat
from codegen.ops.move import Move
from runtime_sim.isa.fields import Rounding
from tvm_vnpu.relay.context import Context
from tvm_vnpu.relay.ops.windows import Piece, Window

AddPool = Callable[[Tensor, Tensor, Window], None]
"""Appends the pool from what a piece reads to the piece."""


def add_pieces(
    context: Context, pieces: Sequence[Sequence[Piece]], x: Tensor, pooled: Tensor,
    names: tuple[str, ...], add: AddPool,
) -> None:  # fmt: skip
    """Append a pool's pieces and what joins them to `pooled`; a lone piece is the pool."""
    lines = []
    for row, line in enumerate(pieces):
        parts = []
        whole = pooled
        if len(pieces) > 1:
            shape = (1, line[0].out[0], *pooled.shape[2:])
            whole = replace(pooled, name=f"{pooled.name}.{row}", shape=shape)
        for col, piece in enumerate(line):
            part = whole
            if len(line) > 1:
                shape = (1, *piece.out, pooled.hwc[2])
                part = replace(pooled, name=f"{whole.name}.{col}", shape=shape)
            add(_seen(context, x, piece, f"{part.name}.in", names), part, piece.window)
            parts.append(part)
        _join(context, parts, whole, 1, names)
        lines.append(whole)
    _join(context, lines, pooled, 0, names)


def _seen(
    context: Context, x: Tensor, piece: Piece, name: str, names: tuple[str, ...]
) -> Tensor:  # fmt: skip
    """Return the part of the input that a piece reads."""
    extent, (_, _, channels) = piece.window.extent, x.hwc
    if extent == x.hwc[:2]:
        return x
    part = replace(x, name=name, shape=(1, *extent, channels), data=None)
    begin = (*piece.begin, 0)
    context.add(Move(name=name, inputs=(x,), outputs=(part,), source_names=names, begin=begin))
    return part


def _join(
    context: Context, parts: Sequence[Tensor], whole: Tensor, axis: int, names: tuple[str, ...]
) -> None:
    if len(parts) == 1:
        return
    values = tuple(identity_scalars(whole.dtype).values())
    context.add(
        Concat(
            name=whole.name, inputs=tuple(parts), outputs=(whole,), source_names=names, axis=axis,
            rounding=Rounding.SINGLE_UP, values=(values,) * len(parts),
        )
    )  # fmt: skip
