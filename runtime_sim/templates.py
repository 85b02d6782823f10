"""Commands that differ in their addresses only share one template.

A stream of many thousand commands has a few hundred templates. Rules and views are worked out once
a template; the views of a command are the template's, moved by its addresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime_sim.engines import SEMANTICS
from runtime_sim.isa.codec import Columns, Words, as_words, decode_columns
from runtime_sim.isa.fields import Instruction, Queue
from runtime_sim.isa.layout import SLOTS
from runtime_sim.isa.rules import RULES
from runtime_sim.npu import NpuConfig
from runtime_sim.step import Step
from runtime_sim.views import ACC, DRAM, SPM, Fields, View

Offsets = NDArray[np.int64]
_IGNORED = ("issue", "wait", "post")
_REGION = ~((1 << 40) - 1)
"""Bits of a DRAM address that name the region: part of the template."""


@dataclass(frozen=True, slots=True)
class Template:
    """What commands share: the row, the fields with all addresses zero, and the step for these.

    `views` are the step's views, reads first, the written ones last; `write` is the position of the
    first written one. `hulls` are their extents, counted from where each begins. Two templates of a
    stream are never equal.
    """

    row: Instruction
    fields: Fields
    step: Step | None
    views: tuple[View, ...]
    hulls: tuple[tuple[int, int], ...]
    write: int


@dataclass(frozen=True, slots=True)
class Family:
    """A template, the commands that have it, and where their views begin.

    `index` (n,) are positions in the stream in rising order; `offsets` (views, n) bytes.
    """

    template: Template
    index: NDArray[np.intp]
    offsets: Offsets


def families(stream: bytes | Words, config: NpuConfig) -> list[Family]:
    """Return the families of a stream, without any check of rules; raises DecodingError."""
    words = as_words(stream)
    found = []
    for group in decode_columns(words):
        for rows in _alike(words[group.index], group.row):
            found.append(_family(group, rows, config))
    return found


def address_fields(row: Instruction) -> tuple[str, ...]:
    """Return the names of a row's address fields."""
    return tuple(
        f.name for f in row.fields if f.name.endswith("_addr") or f.name in ("params", "dram")
    )


def legal(family: Family, config: NpuConfig) -> bool:
    """Tell whether every command of a family keeps the operand rules and stays inside SPM and ACC.

    Rules read no addresses; what they read of the header is part of the template.
    """
    template, sizes = family.template, {SPM: config.spm_bytes, ACC: config.acc_kib * 1024}
    if any(rule(template.fields, template.row, config) for rule in RULES):
        return False
    if template.row.queue == Queue.ST and template.views[template.write].memory == DRAM:
        return False
    for view, hull, starts in zip(template.views, template.hulls, family.offsets, strict=True):
        if view.memory in sizes:
            low, high = hull
            if starts.min() + low < 0 or starts.max() + high > sizes[view.memory]:
                return False
    return True


def reach(found: Sequence[Family]) -> Mapping[int, tuple[int, int]]:
    """Return the (first, last + 1) byte touched in each region used."""
    result: dict[int, tuple[int, int]] = {}
    for family in found:
        template = family.template
        for view, hull, starts in zip(template.views, template.hulls, family.offsets, strict=True):
            if view.memory >= DRAM:
                low, high = int(starts.min()) + hull[0], int(starts.max()) + hull[1]
                first, last = result.get(view.memory - DRAM, (low, high))
                result[view.memory - DRAM] = min(first, low), max(last, high)
    return result


def _alike(rows: Words, row: Instruction) -> Iterator[NDArray[np.intp]]:
    """Yield the positions of each set of commands that share a template."""
    keep = np.full(rows.shape[1], ~np.uint64(0))
    free = dict.fromkeys(address_fields(row), 0) | {"dram": _REGION}
    if row.queue != Queue.CTRL:
        free |= dict.fromkeys(_IGNORED, 0)
    for name, kept in free.items():
        slot = SLOTS[row.opcode].get(name)
        if slot is not None:
            lost = slot.mask & ~kept
            keep[slot.word] &= ~np.uint64(lost << slot.low_bit)
    packed = np.ascontiguousarray(rows & keep).tobytes()
    size = rows.itemsize * len(keep)
    kinds: dict[bytes, list[int]] = {}
    for position in range(len(rows)):
        kinds.setdefault(packed[position * size : (position + 1) * size], []).append(position)
    for positions in kinds.values():
        yield np.array(positions, np.intp)


def _family(group: Columns, rows: NDArray[np.intp], config: NpuConfig) -> Family:
    names = address_fields(group.row)
    addresses = {name: group.fields[name][rows] for name in names}
    bases = dict.fromkeys(names, 0)
    if "dram" in addresses:
        bases["dram"] = int(addresses["dram"][0]) & _REGION
    fields = {name: int(column[rows[0]]) for name, column in group.fields.items()} | bases
    step = SEMANTICS[group.row.mnemonic](fields, config)
    views = views_of(step)
    offsets = np.empty((len(views), len(rows)), np.int64)
    offsets[:] = np.array([view.offset for view in views], np.int64).reshape(-1, 1)
    for name in names if views else ():
        probe = views_of(SEMANTICS[group.row.mnemonic](fields | {name: bases[name] + 1}, config))
        for number, (view, moved) in enumerate(zip(views, probe, strict=True)):
            if moved.offset != view.offset:
                offsets[number] += (addresses[name] - bases[name]) * (moved.offset - view.offset)
    write = len(views) - (len(step.write.views) if step is not None else 0)
    hulls = tuple(
        (low - view.offset, high - view.offset) for view in views for low, high in (view.extent,)
    )
    template = Template(group.row, fields, step, views, hulls, write)
    return Family(template, group.index[rows], offsets)


def views_of(step: Step | None) -> tuple[View, ...]:
    """Return all views of a step: of its reads, in order, then of its write."""
    if step is None:
        return ()
    return tuple(view for operand in (*step.reads, step.write) for view in operand.views)
