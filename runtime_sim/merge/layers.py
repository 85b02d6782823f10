"""Pass 3: prove that the tiles of a group are one operation on whole tensors.

Nothing here is taken on trust. Strides that no single tile shows are guessed from the offsets of
several; then every tile is checked: its result must be its share of the merged result, its operands
and its padding what the merged operation reads for that share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.engines.windows import Window, window
from runtime_sim.merge.groups import Flat
from runtime_sim.merge.values import Source, Value
from runtime_sim.numerics import RECORD_BYTES
from runtime_sim.templates import Template

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """A table of output channels [first, first + count): consecutive bytes in DRAM."""

    first: int
    count: int
    memory: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A merged operand in DRAM, the template that reads it and how windows slide over it."""

    source: Source
    owner: Template
    window: Window


@dataclass(frozen=True, slots=True)
class Layer:
    """A merged operation: `value` is its expression as one of its tiles has it.

    Tensors and tables stand in the order of the expression. `shape` is that of the result.
    """

    value: Value
    shape: tuple[int, int, int]
    out: Source
    tensors: tuple[Tensor, ...]
    tables: tuple[tuple[Block, ...], ...]
    tiles: int


class _Mismatch(Exception):
    """The tiles are not one operation under the strides at hand."""


def prove(tiles: Sequence[Flat]) -> Layer | None:
    """Return the layer that the tiles make up; None if they are not shown to be one."""
    shapes = np.array([flat.tile.out.shape for flat in tiles], np.int64)
    try:
        known = _strides([flat.tile.out for flat in tiles], shapes)
        for strides in _candidates(tiles, known):
            try:
                return in_pixels(_layer(tiles, shapes, strides))
            except _Mismatch:
                continue
    except _Mismatch:
        return None
    return None


def _candidates(tiles: Sequence[Flat], known: list[int | None]) -> Iterator[list[int | None]]:
    """Yield the strides to try: as the tiles show them, then with guesses for rows and columns.

    Tiles with the tables of the first one have its channels. Among these, tiles of one column stand
    a column apart; tiles of one row stand a row apart, or on a longer row that ends where the
    offsets of the result or of an operand stop being evenly spaced. Or rows form one long row.
    """
    outs = np.array([flat.tile.out.offset for flat in tiles], np.int64)
    lead = tiles[int(outs.argmin())].tables
    same = [
        number
        for number, flat in enumerate(tiles)
        if all(a.offset == b.offset for a, b in zip(flat.tables, lead, strict=True))
    ]
    if not lead and known[1]:
        same = np.flatnonzero((outs - outs.min()) % known[1] == 0).tolist()
    order = np.array(same)[np.argsort(outs[same], kind="stable")]
    columns = [outs, *np.array([[t.offset for t in f.tensors] for f in tiles], np.int64).T]
    gaps = np.diff(outs[order])
    near = int(gaps.min()) if gaps.size else 0
    rows: list[int | None] = [known[0]]
    if known[0] is None and near > 0:
        for column in columns:
            steps = np.diff(column[order])
            breaks = np.flatnonzero(steps != steps[0])
            rows.append(int(outs[order[breaks[0] + 1]] - outs[order[0]]) if breaks.size else near)
    pixels = [known[1]] if known[1] is not None or near <= 0 else [None, near]
    for row in dict.fromkeys(rows):
        for pixel in pixels:
            guess = [row, pixel, known[2]]
            if guess == known or row is None or pixel is None or row > pixel:
                yield guess


def _layer(tiles: Sequence[Flat], shapes: Ints, strides: list[int | None]) -> Layer:
    first = tiles[0].tile
    outs = np.array([flat.tile.out.offset for flat in tiles], np.int64)
    starts = _starts(outs - outs.min(), strides, first.out.item)
    shape = _partition(starts, shapes)
    origin = int(np.flatnonzero(~starts.any(axis=1))[0])
    out = Source(
        first.out.memory,
        int(outs[origin]),
        shape,
        (strides[0] or 0, strides[1] or 0, strides[2] or first.out.item),
        first.out.dtype,
        0,
    )
    tensors = tuple(
        _tensor(tiles, slot, starts, shape, origin) for slot in range(len(tiles[0].tensors))
    )
    tables = tuple(
        _table(tiles, slot, starts, shapes, tensors) for slot in range(len(tiles[0].tables))
    )
    return Layer(first.value, shape, out, tensors, tables, len(tiles))


def in_pixels(layer: Layer) -> Layer:
    """Return a layer that looks at single pixels as one column of pixels, so that it cuts evenly.

    Layers with larger windows, and tensors whose rows do not follow one another, stay as they are.
    """
    height, width, channels = layer.shape
    tensors = layer.tensors
    if width == 1 or not all(tensor.window.is_plain for tensor in tensors):
        return layer
    sources = (layer.out, *(tensor.source for tensor in tensors))
    if height > 1 and any(s.strides[0] != width * s.strides[1] for s in sources):
        return layer
    shape = (height * width, 1, channels)

    def column(source: Source) -> Source:
        return replace(
            source,
            shape=(height * width, 1, source.shape[2]),
            strides=(source.strides[1], 0, source.strides[2]),
        )

    return replace(
        layer,
        shape=shape,
        out=column(layer.out),
        tensors=tuple(
            Tensor(column(t.source), t.owner, _pixel_by_pixel(height * width)) for t in tensors
        ),
    )


def _pixel_by_pixel(count: int) -> Window:
    one, all_of_them = (1, 1), (count, 1)
    return Window(all_of_them, one, one, one, (0, 0), all_of_them, all_of_them, all_of_them)


def _strides(sources: Sequence[Source], shapes: Ints) -> list[int | None]:
    """Return each dimension's stride, None where no tile has two elements; they must agree."""
    strides = np.array([source.strides for source in sources], np.int64)
    found: list[int | None] = []
    for axis in range(3):
        shown = strides[shapes[:, axis] > 1, axis]
        if shown.size and (shown != shown[0]).any():
            raise _Mismatch
        found.append(int(shown[0]) if shown.size else None)
    return found


def _starts(offsets: Ints, strides: Sequence[int | None], item: int) -> Ints:
    """Return the position of each tile's first element, from its offset and the strides."""
    starts = np.zeros((len(offsets), 3), np.int64)
    axes = [axis for axis in range(3) if strides[axis] is not None]
    steps = {axis: int(strides[axis] or 0) for axis in axes}
    if not offsets.any():
        return starts
    if 2 not in steps:
        steps[2] = item
    for axis in sorted(steps, key=lambda axis: -steps[axis]):
        if steps[axis] <= 0:
            raise _Mismatch
        starts[:, axis], offsets = np.divmod(offsets, steps[axis])
    if offsets.any():
        raise _Mismatch
    return starts


def _partition(starts: Ints, shapes: Ints) -> tuple[int, int, int]:
    """Return the shape that the tiles fill exactly, as a grid; raises _Mismatch."""
    totals, cells = [], 1
    for axis in range(3):
        edges = np.unique(np.stack([starts[:, axis], shapes[:, axis]], axis=1), axis=0)
        begins, ends = edges[:, 0], edges.sum(axis=1)
        if begins[0] != 0 or (begins[1:] != ends[:-1]).any():
            raise _Mismatch
        totals.append(int(ends[-1]))
        cells *= len(edges)
    if cells != len(starts) or len(np.unique(starts, axis=0)) != cells:
        raise _Mismatch
    return totals[0], totals[1], totals[2]


def _tensor(
    tiles: Sequence[Flat], slot: int, starts: Ints, total: tuple[int, int, int], origin: int
) -> Tensor:
    """Return the merged operand, every tile's share of it checked."""
    sources = [flat.tensors[slot] for flat in tiles]
    owner, shared = tiles[0].owners[slot], tiles[0].shared[slot]
    extents = np.array([source.shape for source in sources], np.int64)
    owners = {id(flat.owners[slot]): flat.owners[slot] for flat in tiles}
    known_slides = {key: _slide(template) for key, template in owners.items()}
    slides = np.array([known_slides[id(flat.owners[slot])] for flat in tiles], np.int64)
    steps, covers, pads = slides[0, :2].tolist(), slides[:, 4:6], slides[:, 6:8]
    mult = owner.fields.get("mult", 1)
    if (slides[:, :4] != slides[0, :4]).any() or (starts[:, 2] % mult).any():
        raise _Mismatch
    strides = _strides(sources, extents)
    known = [None if s is None else s * step for s, step in zip(strides, (*steps, 1))]
    if shared:
        known[2] = 0
    offsets = np.array([source.offset for source in sources], np.int64)
    offsets -= sum(pads[:, axis] * (strides[axis] or 0) for axis in range(2))
    moves = [starts[:, 0], starts[:, 1], starts[:, 2] // mult]
    per_step = _per_step(offsets - offsets[origin], moves, known)
    begin, present, final = [], [], []
    for axis in range(2):
        needed = starts[:, axis] * steps[axis]
        first, last = _present(needed, pads[:, axis], extents[:, axis], covers[:, axis])
        final.append(_whole(per_step[axis], steps[axis], first if strides[axis] is None else 0))
        begin.append(first)
        present.append(last - first)
    merged = Source(
        sources[0].memory,
        int(offsets[origin]) + begin[0] * final[0] + begin[1] * final[1],
        (present[0], present[1], int(extents[0, 2]) if shared else total[2] // mult),
        (final[0], final[1], _channel(strides[2], per_step[2], total[2], sources[0].item)),
        sources[0].dtype,
        0,
        sources[0].stages,
    )
    return Tensor(merged, owner, _window(owner, total, begin, present))


def _channel(stride: int | None, per_step: int, total: int, item: int) -> int:
    """Return the channel stride; tiles of one channel that all read the same elements have 0."""
    return per_step if stride is None and total > 1 else stride or item


def _whole(per_step: int, step: int, unknown: int) -> int:
    """Return a stride from the bytes moved per window; padding needs one that a tile shows."""
    stride, remainder = divmod(per_step, step)
    if remainder or (unknown and stride):
        raise _Mismatch
    return stride


def _present(needed: Ints, pads: Ints, extents: Ints, covers: Ints) -> tuple[int, int]:
    """Return which part of an axis is input and not padding, the same for all tiles.

    Coordinates count from where the first window begins. Each tile must see as input exactly the
    part of what its windows cover that the tiles together see.
    """
    low, high = needed + pads, needed + pads + extents
    first, last = int(low.min()), int(high.max())
    if (low != np.maximum(needed, first)).any() or (
        high != np.minimum(needed + covers, last)
    ).any():
        raise _Mismatch
    return first, last


def _per_step(
    offsets: Ints, moves: Sequence[Ints], known: Sequence[int | None]
) -> tuple[int, int, int]:
    """Return the bytes an operand moves per output row, column and channel; exact for every tile.

    Where no tile shows it, the first tile that lies off the origin along one dimension does.
    """
    found, rest = [0, 0, 0], offsets
    for axis in (2, 1, 0):
        step = known[axis]
        if step is None:
            step = 0
            before = sum(moves[other] for other in range(axis))
            alone = np.flatnonzero((moves[axis] > 0) & (before == 0))
            if alone.size:
                step = int(rest[alone[0]]) // int(moves[axis][alone[0]])
        found[axis] = step
        rest = rest - step * moves[axis]
    if rest.any():
        raise _Mismatch
    return found[0], found[1], found[2]


def _slide(owner: Template) -> tuple[int, ...]:
    """Return a reader's stride, kernel, covered extent and padding, each as (rows, columns)."""
    f = owner.fields
    if "kh" not in f:
        return (1, 1, 1, 1, f["h"], f["w"], 0, 0)
    geometry = window(f)
    return (*geometry.stride, *geometry.kernel, *geometry.covered, *geometry.pad)


def _window(
    owner: Template, total: tuple[int, int, int], begin: Sequence[int], present: Sequence[int]
) -> Window:
    """Return the merged operation's window geometry; elementwise reading is a 1 x 1 window."""
    f = dict(owner.fields)
    if "kh" not in f:
        f |= dict.fromkeys(("kh", "kw", "sh", "sw"), 1)
    f |= {"out_h": total[0], "out_w": total[1], "in_h": present[0], "in_w": present[1]}
    f |= {"pad_top": begin[0], "pad_left": begin[1]}
    return window(f)


def _table(
    tiles: Sequence[Flat], slot: int, starts: Ints, shapes: Ints, tensors: Sequence[Tensor]
) -> tuple[Block, ...]:
    """Return the tables of all channel blocks; tiles of the same channels must share theirs."""
    sources = [flat.tables[slot] for flat in tiles]
    offsets = np.array([source.offset for source in sources], np.int64)
    sizes = np.array([source.shape[0] for source in sources], np.int64)
    reader = tiles[0].readers[slot]
    if reader.row.mnemonic == "AVGPOOL":
        return _counts(tiles, slot, offsets, sizes, tensors)
    firsts, at, inverse = np.unique(starts[:, 2], return_index=True, return_inverse=True)
    if (offsets != offsets[at][inverse]).any() or (sizes != sizes[at][inverse]).any():
        raise _Mismatch
    return tuple(
        Block(int(first), int(shapes[i, 2]), sources[0].memory, int(offsets[i]), int(sizes[i]))
        for first, i in zip(firsts, at, strict=True)
    )


def _counts(
    tiles: Sequence[Flat], slot: int, offsets: Ints, sizes: Ints, tensors: Sequence[Tensor]
) -> tuple[Block, ...]:
    """Return the records of a pool: those of its windows' counts, from one table for all tiles."""
    starts = np.array(
        [_first_count(flat.readers[slot].fields, window(flat.readers[slot].fields))
         for flat in tiles], np.int64,
    )  # fmt: skip
    tables = offsets - starts * RECORD_BYTES
    if (tables != tables[0]).any() or (sizes == 0).any():
        raise _Mismatch
    first, last = int(starts.min()), int((starts + sizes // RECORD_BYTES).max())
    memory = tiles[0].tables[slot].memory
    offset = int(tables[0]) + first * RECORD_BYTES
    return (Block(0, last - first, memory, offset, (last - first) * RECORD_BYTES),)


def _first_count(f: Any, geometry: Window) -> int:
    """Return the first record that a pool reads: that of its fullest window."""
    taps = int(f["kh"] * f["kw"])
    return 0 if f["include_pad"] else taps - int(geometry.counts().max())
