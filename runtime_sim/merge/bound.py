"""Layers bound to the contents of their tables, cut into blocks that can run side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.engines import SEMANTICS
from runtime_sim.merge import scratch
from runtime_sim.merge.layers import Block, Layer, Tensor
from runtime_sim.merge.reading import elements
from runtime_sim.merge.requantizing import choose, joined
from runtime_sim.merge.sums import Dense, Depthwise, Weights, block_bytes, read_weights
from runtime_sim.merge.values import Source, Value
from runtime_sim.npu import NpuConfig
from runtime_sim.numerics import unpack_records

Array = NDArray[Any]
Memories = Sequence[Any]
Rows = tuple[int, int]
Compute = Callable[[Memories, Rows, Array], None]
"""Writes rows [first, last) of a value to an array (rows, columns, channels) of its type."""

_BLOCK_ELEMENTS = 65536
"""Result elements of a block: its float64 form and its inputs should stay in a core's cache."""


class BoundLayer:
    """A layer whose weights and records are read and converted; `blocks` are ranges of rows."""

    def __init__(self, layer: Layer, memories: Memories, config: NpuConfig) -> None:
        """Read the layer's tables; raises NumericsError for a record that no mode can use."""
        builder = _Builder(layer, memories, config)
        self._compute = builder.value(layer.value)
        self._out, self._dtype = layer.out, layer.value.place.dtype
        self.nbytes = builder.nbytes
        self.blocks = _blocks(layer, builder.whole)

    def run(self, memories: Memories, rows: Rows) -> None:
        """Compute rows [first, last) into DRAM."""
        first, last = rows
        out = self._out
        place: Array = np.ndarray(
            (last - first, *out.shape[1:]),
            self._dtype,
            memories[out.memory],
            out.offset + first * out.strides[0],
            out.strides,
        )
        self._compute(memories, rows, place)


def _blocks(layer: Layer, whole: bool) -> tuple[Rows, ...]:
    height, width, channels = layer.shape
    if whole:
        return ((0, height),)
    size = max(1, _BLOCK_ELEMENTS // (width * channels))
    count = -(-height // size)
    edges = [height * number // count for number in range(count + 1)]
    return tuple(zip(edges, edges[1:]))


class _Builder:
    """Builds the function of an expression; takes tensors and tables in the expression's order."""

    def __init__(self, layer: Layer, memories: Memories, config: NpuConfig) -> None:
        self._tensors, self._tables = iter(layer.tensors), iter(layer.tables)
        self._memories, self._config, self._shape = memories, config, layer.shape
        self.nbytes = 0
        self.whole = False

    def value(self, value: Value) -> Compute:
        """Return the function that computes a value."""
        mnemonic = value.template.row.mnemonic
        if mnemonic == "REQUANT":
            return self._requant(value)
        if mnemonic in ("MAXPOOL", "AVGPOOL"):
            return self._pool(value)
        parts = [self._part(part) for part in value.inputs]
        if mnemonic == "ELTWISE":
            return _pairs(value, parts)
        step = value.template.step
        assert step is not None

        def convert(memories: Memories, rows: Rows, out: Array) -> None:
            out[...] = step.compute(parts[0](memories, rows))

        return convert

    def _part(self, part: Source | Value) -> Callable[[Memories, Rows], Array]:
        """Return the function that gives rows of an operand of pointwise work."""
        if isinstance(part, Source):
            source = next(self._tensors).source
            return lambda memories, rows: elements(source, memories, rows)
        compute, dtype = self.value(part), part.place.dtype

        def read(memories: Memories, rows: Rows) -> Array:
            out = np.empty((rows[1] - rows[0], *self._shape[1:]), dtype)
            compute(memories, rows, out)
            return out

        return read

    def _requant(self, value: Value) -> Compute:
        inner = value.inputs[0]
        assert isinstance(inner, Value)
        terms = list(self._terms(inner))
        raw = np.concatenate([block_bytes(b, self._memories) for b in next(self._tables)])
        f = value.template.fields
        records = unpack_records(raw, f["rounding"])
        dtype, finish = choose(f, records, [weights for weights, _ in terms])
        sums = [
            (Dense if "oc" in w.template.fields else Depthwise)(w, tensor, dtype)
            for w, tensor in terms
        ]
        self.nbytes += sum(w.values.nbytes * dtype.itemsize // 4 for w, _ in terms)
        width, channels = self._shape[1], self._shape[2]
        joint = joined(channels)

        def compute(memories: Memories, rows: Rows, out: Array) -> None:
            pixels = (rows[1] - rows[0]) * width
            total = scratch.array("sums", (-(-pixels // joint) * joint, channels), dtype)
            sums[0].into(total[:pixels], memories, rows)
            for more in sums[1:]:
                part = scratch.array("part", (pixels, channels), dtype)
                more.into(part, memories, rows)
                np.add(total[:pixels], part, out=total[:pixels])
            finish(total, out)

        return compute

    def _terms(self, value: Value) -> Iterator[tuple[Weights, Tensor]]:
        """Yield the weights and input of each command of a chain of sums."""
        tensor = next(self._tensors)
        for before in value.inputs[1:]:
            assert isinstance(before, Value)
            yield from self._terms(before)
        tables: list[tuple[Block, ...]] = [next(self._tables) for _ in value.tables]
        window = tensor.window
        yield read_weights(value.template, window, tables, self._memories, self._config), tensor

    def _pool(self, value: Value) -> Compute:
        tensor = next(self._tensors)
        tables = [next(self._tables)[0] for _ in value.tables]
        window, source, self.whole = tensor.window, tensor.source, True
        f = dict(value.template.fields) | {"c": self._shape[2]}
        f |= {"out_h": window.out[0], "out_w": window.out[1]}
        f |= {"in_h": window.present[0], "in_w": window.present[1]}
        f |= {"pad_top": window.pad[0], "pad_left": window.pad[1]}
        f |= {"sh": window.stride[0], "sw": window.stride[1]}
        step = SEMANTICS[value.template.row.mnemonic](f, self._config)
        assert step is not None

        def compute(memories: Memories, rows: Rows, out: Array) -> None:
            data = elements(source, memories, (0, source.shape[0]))
            out[...] = step.compute(data, *[block_bytes(b, memories) for b in tables])

        return compute


def _pairs(value: Value, parts: Sequence[Callable[[Memories, Rows], Array]]) -> Compute:
    """Return ELTWISE as one table of all pairs of operand bytes."""
    step = value.template.step
    assert step is not None
    every = np.arange(256, dtype=np.uint8)
    pairs = step.compute(every.reshape(256, 1), every.reshape(1, 256))
    table = np.ascontiguousarray(pairs).astype(value.place.dtype).reshape(-1)

    def compute(memories: Memories, rows: Rows, out: Array) -> None:
        a, b = (part(memories, rows).view(np.uint8) for part in parts)
        index = scratch.array("index", a.shape, np.intp)
        np.left_shift(a, 8, out=index, dtype=np.intp)
        np.add(index, b, out=index)
        out[...] = np.take(table, index, mode="clip")

    return compute


def dynamic(layer: Layer, constants: int) -> bool:
    """Tell whether a layer has tables outside the constants, which differ from call to call."""
    return any(block.memory != constants for table in layer.tables for block in table)
