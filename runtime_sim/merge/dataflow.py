"""Pass 1: follow values through SPM and ACC, and express what each STORE writes over DRAM.

A buffer that a LOAD filled is a copy, so its readers read the original. A sum in ACC goes straight
into the REQUANT that reads it, a result in SPM into the STORE that saves it. A STORE all of whose
bytes are explained this way becomes tiles; any other is left to the commands themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from runtime_sim.isa.fields import Queue
from runtime_sim.merge.affine import Dim, nested_dims, reach, through
from runtime_sim.merge.intervals import Intervals
from runtime_sim.merge.values import Load, Opaque, Source, Tile, Value
from runtime_sim.templates import Family, Template
from runtime_sim.views import ACC, CONSTANTS, DRAM, SPM, View

POINTWISE = ("ELTWISE", "CONVERT")
"""Instructions whose result element depends on the operands' same element alone."""
Placed = tuple[View, int, tuple[int, int]]
"""A view of a template, the offset it has in one command, and its hull counted from there."""
Command = tuple[int, Template, tuple[int, ...]]
"""(position, template, offset of each of its views)."""


class Dataflow:
    """Walks a stream once; `tiles` holds the explained STOREs, `kept` the others' positions."""

    def __init__(self) -> None:
        """Start before the first command."""
        self.tiles: list[Tile] = []
        self.kept: list[int] = []
        self._spm, self._acc = Intervals(), Intervals()
        self._written: dict[int, list[_Stretch]] = {}
        self._boxes: dict[int, tuple[tuple[Dim, ...] | None, Template]] = {}

    def walk(self, commands: Sequence[Command]) -> None:
        """Follow all commands in stream order."""
        for position, template, offsets in commands:
            queue = template.row.queue
            if queue == Queue.LD:
                self._load(position, template, offsets)
            elif queue == Queue.ST:
                self._store(position, template, offsets)
            elif queue != Queue.CTRL:
                self._compute(position, template, offsets)

    def _load(self, position: int, template: Template, offsets: Sequence[int]) -> None:
        low, high = template.hulls[1]
        load = Load(position, template, offsets[1], offsets[0])
        self._spm.put(offsets[1] + low, offsets[1] + high, load)
        low, high = template.hulls[0]
        for stretch in self._written.get(template.views[0].memory, ())[-1:]:
            stretch.read |= offsets[0] + low < stretch.high and offsets[0] + high > stretch.low

    def _compute(self, position: int, template: Template, offsets: Sequence[int]) -> None:
        reads, first = [], 0
        assert template.step is not None
        for operand in template.step.reads:
            last = first + len(operand.views)
            reads.append(list(zip(template.views, offsets, template.hulls))[first:last])
            first = last
        value = self._value(template, reads, offsets[-1]) if len(offsets) == first + 1 else None
        for number in range(first, len(offsets)):
            low, high = template.hulls[number]
            memory = self._spm if template.views[number].memory == SPM else self._acc
            start = offsets[number]
            memory.put(start + low, start + high, value or Opaque(position))

    def _value(
        self, template: Template, reads: Sequence[Sequence[Placed]], out: int
    ) -> Value | None:
        inputs: list[Source | Value] = []
        tables: list[Source] = []
        for operand in reads:
            view, _, hull = operand[0]
            if hull[0] == hull[1]:
                return None
            found = self._sum(operand[0]) if view.memory == ACC else self._tensor(operand)
            if found is None:
                return None
            if view.memory != ACC and len(view.shape) == 1:
                if not isinstance(found, Source) or found.stages:
                    return None
                if found.shape[0] > 1 and found.strides[0] != found.item:
                    return None
                tables.append(found)
            else:
                inputs.append(found)
        return Value(template, template.views[-1], out, tuple(inputs), tuple(tables))

    def _sum(self, placed: Placed) -> Value | None:
        """Return the value whose place in ACC is exactly this view."""
        view, offset, (low, high) = placed
        owner = self._acc.sole(offset + low, offset + high)
        if isinstance(owner, Value) and _same_place(view, offset, owner):
            return owner
        return None

    def _tensor(self, operand: Sequence[Placed]) -> Source | Value | None:
        """Return what an SPM operand holds: a value in place, or elements of DRAM."""
        view, offset, (low, high) = operand[0]
        if len(operand) == 1:
            owner = self._spm.sole(offset + low, offset + high)
            copied = None if owner is None else self._copied(owner, view, offset)
            if copied is not None:
                return copied
            if isinstance(owner, Value) and owner.place.dtype == view.dtype:
                return owner if _same_place(view, offset, owner) else None
            if owner is not None:
                return None
        rows = [
            (row, offset + number * view.strides[0])
            for view, offset, _ in operand
            for row in (_one_row(view),)
            for number in range(view.shape[0])
        ]
        return self._joined(rows)

    def _joined(self, rows: Sequence[tuple[View, int]]) -> Source | None:
        """Return rows as one tensor if their originals follow one another evenly."""
        parts = []
        for view, offset in rows:
            low, high = _hull(view)
            owner = self._spm.sole(offset + low, offset + high)
            part = None if owner is None else self._copied(owner, view, offset)
            if part is None:
                return None
            parts.append(part)
        first = parts[0]
        step = parts[1].offset - first.offset if len(parts) > 1 else 0
        for number, part in enumerate(parts):
            same = (part.memory, part.strides, part.dtype) == (
                first.memory, first.strides, first.dtype,
            )  # fmt: skip
            stages = [id(s) for s in part.stages] == [id(s) for s in first.stages]
            if not (same and stages and part.offset == first.offset + number * step):
                return None
        return Source(
            first.memory,
            first.offset,
            (len(parts), *first.shape[1:]),
            (step, *first.strides[1:]),
            first.dtype,
            min(part.since for part in parts),
            first.stages,
        )

    def _copied(self, owner: Load | Value | Opaque, view: View, offset: int) -> Source | None:
        """Return the DRAM elements behind a window on a copied or converted tensor."""
        item = view.dtype.itemsize
        if isinstance(owner, Load):
            dims = self._box(owner.template, 1)
            if dims is None:
                return None
            found = through(offset - owner.spm, view.shape, view.strides, item, dims)
            if found is None:
                return None
            memory = owner.template.views[0].memory
            return Source(
                memory, owner.dram + found[0], view.shape, found[1], view.dtype, owner.position
            )
        if isinstance(owner, Value) and owner.template.row.mnemonic == "CONVERT":
            return self._converted(owner, view, offset)
        return None

    def _converted(self, owner: Value, view: View, offset: int) -> Source | None:
        source, place = owner.inputs[0], owner.place
        if not isinstance(source, Source) or place.dtype != view.dtype:
            return None
        dims = nested_dims(place.shape, place.strides, source.strides)
        if dims is None:
            return None
        found = through(offset - owner.offset, view.shape, view.strides, 1, dims)
        if found is None:
            return None
        return Source(
            source.memory,
            source.offset + found[0],
            view.shape,
            found[1],
            source.dtype,
            source.since,
            (*source.stages, owner.template),
        )

    def _store(self, position: int, template: Template, offsets: Sequence[int]) -> None:
        box, target = template.views
        tiles = self._explained(position, template, offsets)
        if tiles is None:
            self.kept.append(position)
        else:
            self.tiles += tiles
        low, high = template.hulls[1]
        stretches = self._written.setdefault(target.memory, [])
        last = stretches[-1] if stretches else None
        low, high = offsets[1] + low, offsets[1] + high
        if last and not last.read and low <= last.high and high >= last.low:
            last.low, last.high = min(low, last.low), max(high, last.high)
            last.position = position
        else:
            stretches.append(_Stretch(position, low, high))

    def _explained(
        self, position: int, template: Template, offsets: Sequence[int]
    ) -> list[Tile] | None:
        """Return the tiles of a STORE; None if some byte of it cannot be followed."""
        box, target = template.views
        low, high = template.hulls[0]
        owners = self._spm.within(offsets[0] + low, offsets[0] + high)
        dims = self._box(template, 0)
        if owners is None or dims is None:
            return None
        tiles, covered = [], 0
        low, high = template.hulls[1]
        own = (target.memory, offsets[1] + low, offsets[1] + high)
        for first, last, owner in owners:
            if not isinstance(owner, Value) or not computable(owner):
                return None
            place = owner.place
            low, high = owner.template.hulls[-1]
            if owner.offset + low < first or owner.offset + high > last:
                return None
            item = place.dtype.itemsize
            image = through(owner.offset - offsets[0], place.shape, place.strides, item, dims)
            if image is None:
                return None
            out = Source(
                target.memory, offsets[1] + image[0], place.shape, image[1], place.dtype, position
            )
            if not self._fresh(owner, own, out):
                return None
            covered += item * place.shape[0] * place.shape[1] * place.shape[2]
            tiles.append(Tile(position, owner, out))
        n0, n1, n2, run = box.shape
        return tiles if covered == n0 * n1 * n2 * run else None

    def _box(self, template: Template, near: int) -> tuple[Dim, ...] | None:
        """Return the dimensions of a transfer's box, looked at from view `near`."""
        known = self._boxes.get(id(template))
        if known is None:
            here, there = template.views[near], template.views[1 - near]
            known = (nested_dims(here.shape, here.strides, there.strides), template)
            self._boxes[id(template)] = known
        return known[0]

    def _fresh(self, value: Value, own: tuple[int, int, int], out: Source | None) -> bool:
        """Tell whether no STORE so far, nor this one to `own`, overwrites what a value reads.

        This one may write where each element that it reads there is replaced by its own result.
        """
        out = out if value.template.row.mnemonic in POINTWISE else None
        for source in (*value.inputs, *value.tables):
            if isinstance(source, Value):
                if not self._fresh(source, own, out):
                    return False
            elif source.memory != DRAM + CONSTANTS:
                low, high = reach(source.offset, source.shape, source.strides, source.item)
                meets = source.memory == own[0] and low < own[2] and high > own[1]
                if meets and (out is None or not same_elements(source, out)):
                    return False
                for stretch in reversed(self._written.get(source.memory, [])):
                    if stretch.position <= source.since:
                        break
                    if low < stretch.high and high > stretch.low:
                        return False
        return True


def same_elements(source: Source, out: Source) -> bool:
    """Tell whether a result takes exactly the place of an operand of the same type size."""
    return (source.memory, source.offset, source.shape, source.strides, source.item) == (
        out.memory, out.offset, out.shape, out.strides, out.item,
    )  # fmt: skip


def computable(value: Value) -> bool:
    """Tell whether the kernels can compute a value: a matrix sum inside REQUANT, or vector work.

    What is not listed here, a new instruction for example, stays a command.
    """
    if not value.inputs:
        return False
    mnemonic, inner = value.template.row.mnemonic, value.inputs[0]
    if mnemonic == "REQUANT":
        return isinstance(inner, Value) and _summable(inner)
    if mnemonic in ("MAXPOOL", "AVGPOOL"):
        return isinstance(inner, Source)
    broadcast = value.template.fields.get("b_broadcast") and isinstance(value.inputs[1], Value)
    if mnemonic not in POINTWISE or broadcast:
        return False
    return all(isinstance(part, Source) or computable(part) for part in value.inputs)


def _summable(value: Value) -> bool:
    """Tell whether a value is a chain of CONV or DWCONV commands, each on DRAM elements."""
    if value.template.row.queue != Queue.MX or not isinstance(value.inputs[0], Source):
        return False
    rest = value.inputs[1:]
    return all(isinstance(part, Value) and _summable(part) for part in rest)


class _Stretch:
    """Bytes [low, high) that STOREs up to `position` wrote; `read` once a LOAD reads of them."""

    __slots__ = ("high", "low", "position", "read")

    def __init__(self, position: int, low: int, high: int) -> None:
        self.position, self.low, self.high, self.read = position, low, high, False


def in_order(families: Sequence[Family]) -> list[Command]:
    """Return all commands of a stream in its order."""
    commands: list[Command] = []
    for family in families:
        columns = family.offsets.T.tolist()
        for position, offsets in zip(family.index.tolist(), columns, strict=True):
            commands.append((position, family.template, tuple(offsets)))
    commands.sort(key=lambda command: command[0])
    return commands


@lru_cache(maxsize=4096)
def _hull(view: View) -> tuple[int, int]:
    """Return the view's extent, counted from its offset."""
    low, high = view.extent
    return low - view.offset, high - view.offset


@lru_cache(maxsize=4096)
def _one_row(view: View) -> View:
    return View(view.memory, view.offset, (1, *view.shape[1:]), view.strides, view.dtype)


def _same_place(view: View, offset: int, value: Value) -> bool:
    """Tell whether a view selects exactly the elements of a value, in the same order."""
    place = value.place
    if view is place:
        return offset == value.offset
    return (
        offset == value.offset
        and view.shape == place.shape
        and all(n == 1 or a == b for n, a, b in zip(view.shape, view.strides, place.strides))
    )
