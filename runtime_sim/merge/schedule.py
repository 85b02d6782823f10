"""The passes in order: from the families of a stream to a short list of layers and commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from runtime_sim.isa.fields import Queue
from runtime_sim.merge.affine import reach
from runtime_sim.merge.dataflow import Dataflow, in_order
from runtime_sim.merge.groups import Flat, Group, Grouper
from runtime_sim.merge.layers import Layer, prove
from runtime_sim.merge.needed import needed
from runtime_sim.merge.values import Source
from runtime_sim.templates import Family, Template
from runtime_sim.views import DRAM

Action = Layer | int
"""A merged operation, or the position of a command that runs as it is."""


def schedule(families: Sequence[Family]) -> tuple[Action, ...]:
    """Return what to do, in a legal order, to leave DRAM as the stream would."""
    commands = in_order(families)
    flow = Dataflow()
    flow.walk(commands)
    plain = needed(commands, flow.kept)
    grouper, actions = Grouper(), []
    tiles = iter(flow.tiles)
    tile = next(tiles, None)
    for position in (*plain, len(commands)):
        while tile is not None and tile.position < position:
            actions += _layers(grouper.add(tile))
            tile = next(tiles, None)
        if position < len(commands):
            reads, writes = _transfers(*commands[position][1:])
            actions += _layers(grouper.conflicts(reads, writes))
            actions.append(position)
    actions += _layers(grouper.rest())
    return tuple(actions)


def _layers(groups: Iterator[Group]) -> list[Action]:
    return [layer for group in groups for layer in _split(group.tiles)]


def _split(tiles: Sequence[Flat]) -> list[Action]:
    """Return the tiles as few layers: one if they prove to be one.

    Otherwise those of each set of tables, as a grouped convolution has; tiles of a group read
    nothing that another writes, so they may change places if their results do not overlap either.
    Failing that, those of both halves.
    """
    layer = prove(tiles)
    if layer is not None:
        return [layer]
    parts: dict[tuple[int, ...], list[Flat]] = {}
    for flat in tiles:
        parts.setdefault(tuple(table.offset for table in flat.tables), []).append(flat)
    if len(parts) > 1 and _apart([flat.tile.out for flat in tiles]):
        return [layer for part in parts.values() for layer in _split(part)]
    middle = len(tiles) // 2
    return [*_split(tiles[:middle]), *_split(tiles[middle:])]


def _apart(results: Sequence[Source]) -> bool:
    """Tell whether no two elements of some results share a byte."""
    hulls = [reach(r.offset, r.shape, r.strides, r.item) for r in results]
    low, high = min(hull[0] for hull in hulls), max(hull[1] for hull in hulls)
    marks, count = np.zeros(high - low, np.bool_), 0
    for result in results:
        shape, strides = (*result.shape, result.item), (*result.strides, 1)
        np.ndarray(shape, np.bool_, marks, result.offset - low, strides)[...] = True
        count += result.shape[0] * result.shape[1] * result.shape[2] * result.item
    return int(np.count_nonzero(marks)) == count


def _transfers(
    template: Template, offsets: Sequence[int]
) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    """Return the DRAM hulls that a command reads and writes."""
    hulls = [
        (view.memory, *reach(offset, view.shape, view.strides, view.dtype.itemsize))
        for view, offset in zip(template.views, offsets, strict=True)
        if view.memory >= DRAM and 0 not in view.shape
    ]
    return ([], hulls) if template.row.queue == Queue.ST else (hulls, [])
