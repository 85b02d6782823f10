"""DRAM planning: intermediate tensors share one arena by lifetime; constants lie in one blob."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from codegen.graph import NpuGraph, Tensor
from codegen.tiles import ALIGNMENT, align

REGION_SHIFT = 40
CONSTANTS, ARENA, FIRST_ARGUMENT = 0, 1, 2


def dram_address(region: int, offset: int) -> int:
    """Return the 44-bit address of a byte in a region."""
    return region << REGION_SHIFT | offset


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Where every tensor lives: DRAM address by tensor identity, and the arena's size in bytes."""

    addresses: dict[int, int]
    arena_bytes: int
    copies: tuple[tuple[Tensor, Tensor], ...]

    def address(self, tensor: Tensor) -> int:
        """Return a tensor's DRAM address."""
        return self.addresses[id(tensor)]


@dataclass(frozen=True, slots=True)
class _Block:
    offset: int
    size: int
    first: int
    last: int


def place(graph: NpuGraph) -> Placement:
    """Place inputs and outputs in argument regions, and the rest in the arena.

    Aliases (reshape) share their input's bytes. Greedy by size: each buffer takes the lowest
    offset that is free for its whole lifetime. A graph output that aliases a graph input or
    another output needs a copy, which is listed.
    """
    root = _roots(graph)
    addresses: dict[int, int] = {}
    for index, tensor in enumerate(graph.inputs):
        addresses[id(tensor)] = dram_address(FIRST_ARGUMENT + index, 0)
    first_output = FIRST_ARGUMENT + len(graph.inputs)
    copies = []
    for index, tensor in enumerate(graph.outputs):
        owner = root.get(id(tensor), tensor)
        address = dram_address(first_output + index, 0)
        if id(owner) in addresses:
            copies.append(_copy_pair(owner, tensor, address, addresses))
        else:
            addresses[id(owner)] = address
    arena = _place_arena(graph, root, addresses)
    for tensor in graph.tensors():
        addresses.setdefault(id(tensor), addresses[id(root.get(id(tensor), tensor))])
    return Placement(addresses, arena, tuple(copies))


def _copy_pair(
    owner: Tensor, tensor: Tensor, address: int, addresses: dict[int, int]
) -> tuple[Tensor, Tensor]:
    """Return (source, target) stand-ins of the owner's shape, placed at both ends of the copy."""
    source = Tensor(owner.name, owner.shape, owner.dtype, layout=owner.layout)
    target = Tensor(tensor.name, owner.shape, owner.dtype, layout=owner.layout)
    addresses[id(source)], addresses[id(target)] = addresses[id(owner)], address
    return source, target


def _roots(graph: NpuGraph) -> dict[int, Tensor]:
    """Return, for each alias, the tensor whose bytes it shares."""
    root: dict[int, Tensor] = {}
    for operator in graph.operators:
        if operator.is_alias:
            source = operator.inputs[0]
            root[id(operator.outputs[0])] = root.get(id(source), source)
    return root


def _place_arena(graph: NpuGraph, root: dict[int, Tensor], addresses: dict[int, int]) -> int:
    lives = _lifetimes(graph, root)
    placed: list[_Block] = []
    waiting = [
        (tensor, *lives[id(tensor)])
        for operator in graph.operators
        for tensor in operator.outputs
        if id(tensor) not in addresses and id(tensor) not in root
    ]
    for tensor, first, last in sorted(waiting, key=lambda item: -item[0].nbytes):
        size = align(tensor.nbytes)
        block = _Block(_lowest_gap(placed, size, first, last), size, first, last)
        placed.append(block)
        addresses[id(tensor)] = dram_address(ARENA, block.offset)
    return max((b.offset + b.size for b in placed), default=0)


def _lifetimes(graph: NpuGraph, root: dict[int, Tensor]) -> dict[int, tuple[int, int]]:
    lives: dict[int, tuple[int, int]] = {}
    for index, operator in enumerate(graph.operators):
        for tensor in (*operator.inputs, *operator.outputs):
            owner = id(root.get(id(tensor), tensor))
            first, _ = lives.get(owner, (index, index))
            lives[owner] = (first, index)
    for tensor in graph.outputs:
        owner = id(root.get(id(tensor), tensor))
        if owner in lives:
            lives[owner] = (lives[owner][0], len(graph.operators))
    return lives


def _lowest_gap(placed: Iterable[_Block], size: int, first: int, last: int) -> int:
    offset = 0
    busy = sorted(
        (b for b in placed if b.first <= last and first <= b.last), key=lambda b: b.offset
    )
    for block in busy:
        if offset + size <= block.offset:
            break
        offset = max(offset, block.offset + block.size)
    return offset


@dataclass(slots=True)
class ConstantBlob:
    """Collects constant arrays into one blob; equal bytes are stored once."""

    parts: list[NDArray[np.uint8]] = field(default_factory=list)
    size: int = 0
    seen: dict[bytes, int] = field(default_factory=dict)

    def add(self, array: NDArray[np.generic]) -> int:
        """Append an array (64-byte aligned) and return its offset."""
        raw = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        key = raw.tobytes()
        if key in self.seen:
            return self.seen[key]
        offset = self.size
        padding = np.zeros(-len(raw) % ALIGNMENT, np.uint8)
        self.parts += [raw, padding]
        self.size += len(raw) + len(padding)
        self.seen[key] = offset
        return offset

    def array(self) -> NDArray[np.uint8]:
        """Return the whole blob as uint8."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.uint8)
