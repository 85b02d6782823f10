"""Pass 2: gather tiles of one operation that nothing between them depends on.

At any time the open groups touch no common DRAM byte of which one of them writes, so the order in
which they are emitted is free. A tile or transfer that would break this closes, and so emits, every
group it conflicts with before it joins its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from runtime_sim.merge.affine import reach
from runtime_sim.merge.dataflow import same_elements
from runtime_sim.merge.values import Source, Tile, Value
from runtime_sim.templates import Template
from runtime_sim.views import CONSTANTS, DRAM

Hull = tuple[int, int, int]
"""(memory, first byte, last byte + 1)."""

_EXTENTS = (
    "h", "w", "c", "in_h", "in_w", "out_h", "out_w", "oc", "pad_top", "pad_left",
    "packed", "stationary",
)  # fmt: skip
_PLACES = ("_addr", "_stride", "_ring_rows", "_ring_start", "params", "issue", "wait", "post")


@dataclass(slots=True)
class Flat:
    """A tile with its expression spread out: DRAM tensors and tables in the order of the tree.

    `owners` are the templates that read the tensors, `readers` those that read the tables; a
    `shared` tensor serves all output channels.
    """

    tile: Tile
    tensors: list[Source] = field(default_factory=list)
    owners: list[Template] = field(default_factory=list)
    shared: list[bool] = field(default_factory=list)
    tables: list[Source] = field(default_factory=list)
    readers: list[Template] = field(default_factory=list)


@dataclass(slots=True)
class Group:
    """Tiles of one operation, with hulls of what they read and write.

    An operand that the result replaces element by element counts as written only.
    """

    key: Hashable
    tiles: list[Flat]
    reads: list[Hull]
    writes: list[Hull]


class Grouper:
    """Sorts tiles into groups, in stream order."""

    def __init__(self) -> None:
        """Start with no open group."""
        self._open: dict[Hashable, Group] = {}
        self._kinds: dict[int, tuple[int, Template]] = {}
        self._numbers: dict[Hashable, int] = {}

    def add(self, tile: Tile) -> Iterator[Group]:
        """Put a tile into its group; yields the groups that this closes."""
        flat = Flat(tile)
        kind = self._key(tile.value, flat)
        sources = [s for s in (*flat.tensors, *flat.tables) if s.memory != DRAM + CONSTANTS]
        placed = tuple(same_elements(s, tile.out) for s in sources)
        key = (kind, tile.out.memory, tile.out.item, placed)
        reads = [_hull(s) for s, in_place in zip(sources, placed, strict=True) if not in_place]
        writes = [_hull(tile.out)]
        own = self._open.get(key)
        if own is not None and (_meets(own.writes, reads) or _meets(own.reads, writes)):
            yield self._open.pop(key)
            own = None
        yield from self.conflicts(reads, writes, key)
        if own is None:
            own = self._open[key] = Group(key, [], [], [])
        own.tiles.append(flat)
        _extend(own.reads, reads)
        _extend(own.writes, writes)

    def conflicts(
        self, reads: Sequence[Hull], writes: Sequence[Hull], own: Hashable = None
    ) -> Iterator[Group]:
        """Close and yield every group but `own` that must come before these accesses."""
        for key, group in list(self._open.items()):
            if key != own and (
                _meets(group.writes, reads)
                or _meets(group.writes, writes)
                or _meets(group.reads, writes)
            ):
                yield self._open.pop(key)

    def rest(self) -> Iterator[Group]:
        """Close and yield all groups."""
        yield from self._open.values()
        self._open.clear()

    def _key(self, value: Value, flat: Flat) -> Hashable:
        """Return what all tiles of a group share, and spread the expression into `flat`."""
        key: list[Hashable] = [self._kind(value.template), len(value.tables)]
        mnemonic, broadcast = value.template.row.mnemonic, value.template.fields.get("b_broadcast")
        for number, part in enumerate(value.inputs):
            if isinstance(part, Value):
                key.append(self._key(part, flat))
            else:
                flat.tensors.append(part)
                flat.owners.append(value.template)
                flat.shared.append(mnemonic == "CONV" or bool(number and broadcast))
                key += [part.memory, part.item, *map(self._kind, part.stages)]
        for table in value.tables:
            flat.tables.append(table)
            flat.readers.append(value.template)
            key.append(table.memory)
        return tuple(key)

    def _kind(self, template: Template) -> int:
        """Return a number for everything a template says, but where and how large."""
        known = self._kinds.get(id(template))
        if known is None:
            kind = (template.row.mnemonic, *(
                pair for pair in template.fields.items() if not _is_free(pair[0])
            ))  # fmt: skip
            number = self._numbers.setdefault(kind, len(self._numbers))
            known = self._kinds[id(template)] = (number, template)
        return known[0]


def _is_free(name: str) -> bool:
    return name in _EXTENTS or name.endswith(_PLACES)


def _hull(source: Source) -> Hull:
    low, high = reach(source.offset, source.shape, source.strides, source.item)
    return source.memory, low, high


def _meets(known: Sequence[Hull], hulls: Sequence[Hull]) -> bool:
    return any(
        memory == where and low < last and high > first
        for memory, low, high in hulls
        for where, first, last in known
    )


def _extend(known: list[Hull], hulls: Sequence[Hull]) -> None:
    """Grow the hull of each operand by that of the same operand of one more tile."""
    if not known:
        known += hulls
        return
    for slot, (memory, low, high) in enumerate(hulls):
        _, first, last = known[slot]
        if low < first or high > last:
            known[slot] = (memory, min(first, low), max(last, high))
