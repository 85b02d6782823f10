"""Random layers cut into random tiles, as a compiler would emit them, and what may go wrong there.

`draw_layer` gives the commands of one convolution: tiles in any order, double buffers at random
places, sums cut along the input channels, a store per tile or row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import numpy as np

from runtime_sim import npu
from runtime_sim.isa.codec import Words, encode
from runtime_sim.isa.fields import Rounding
from tests.runtime_sim import programs

CONFIG = npu.load("vnpu-64")
BUFFER = 8192
"""SPM bytes set aside for each of: input, weights, records, result."""


@dataclass(frozen=True)
class Drawn:
    """A program, its memories' contents and how many layers it has."""

    words: Words
    constants: np.ndarray
    arena: np.ndarray
    tiles: int


@dataclass(frozen=True)
class Shape:
    """A convolution: depthwise where `oc` is 0."""

    height: int
    width: int
    ic: int
    oc: int
    kernel: int
    stride: int
    pad: int
    rounding: int
    zero_points: tuple[int, int]

    @property
    def out(self) -> tuple[int, int, int]:
        """Return the result's shape; one row and column of padding more at the far ends."""
        rows, columns = (
            (side + self.pad + min(self.pad, 1) - self.kernel) // self.stride + 1
            for side in (self.height, self.width)
        )
        return rows, columns, self.oc or self.ic


def draw_shape(random: Random) -> Shape:
    """Return a small random convolution."""
    kernel = random.choice((1, 1, 2, 3))
    return Shape(
        random.randrange(3, 9),
        random.randrange(3, 9),
        random.randrange(1, 13),
        random.choice((0, random.randrange(1, 13))),
        kernel,
        random.randrange(1, 3),
        random.randrange(kernel),
        random.choice(tuple(Rounding)),
        (random.randrange(-20, 21), random.randrange(-3, 4)),
    )


def draw_layer(
    random: Random, shape: Shape, source: int, target: int, first_constant: int = 0
) -> Drawn:
    """Return a program from arena byte `source` to `target`."""
    rows, columns, channels = shape.out
    sizes = [random.randrange(1, extent + 1) for extent in (rows, columns, channels)]
    tiles = [
        tuple((start, min(size, extent - start)) for start, size, extent in zip(at, sizes, ends))
        for ends in [(rows, columns, channels)]
        for at in _starts(random, ends, sizes)
    ]
    commands: list[Words] = []
    blocks = sorted({tile[2] for tile in tiles})
    blobs, begin = _tables(random, shape, blocks, first_constant)
    split = random.random() < 0.3
    for number, tile in enumerate(tiles):
        commands += _tile(random, shape, tile, begin[tile[2]], (source, target), number % 2, split)
    arena = np.frombuffer(random.randbytes(4096), np.uint8).copy()
    words = np.concatenate(commands)
    return Drawn(words, np.concatenate(blobs), arena, len(tiles))


def _starts(
    random: Random, ends: tuple[int, int, int], sizes: list[int]
) -> list[tuple[int, int, int]]:
    """Return the first element of every tile, dimensions nested in a random order."""
    order = random.sample(range(3), 3)
    axes = [range(0, ends[axis], sizes[axis]) for axis in order]
    found = [(a, b, c) for a in axes[0] for b in axes[1] for c in axes[2]]
    return [tuple(start[order.index(axis)] for axis in range(3)) for start in found]  # type: ignore[misc]


def _tables(
    random: Random, shape: Shape, blocks: list[tuple[int, int]], at: int
) -> tuple[list[np.ndarray], dict[tuple[int, int], tuple[int, int]]]:
    """Return the constants, and where each channel block's weights and records begin in them."""
    blobs, begin = [], {}
    for block in blocks:
        depth = shape.kernel**2 * (shape.ic if shape.oc else 1)
        weights = np.frombuffer(random.randbytes(depth * block[1]), np.uint8)
        records = programs.draw_records(random, block[1], shape.rounding, 13)
        gap = np.zeros(random.randrange(4), np.uint8)
        begin[block] = (at, at + weights.size + gap.size)
        blobs += [weights, gap, records.reshape(-1)]
        at += weights.size + gap.size + records.size
    return blobs, begin


def _tile(
    random: Random,
    shape: Shape,
    tile: tuple[tuple[int, int], ...],
    begin: tuple[int, int],
    places: tuple[int, int],
    buffer: int,
    split: bool,
) -> Iterator[Words]:
    """Yield one tile's loads, sums, requantisation and stores."""
    (row, rows), (column, columns), (channel, channels) = tile
    in_spm, w_spm, p_spm, out_spm = (BUFFER * (2 * n + buffer) for n in range(4))
    y, (top, high) = _span(shape, row, rows, shape.height)
    x, (left, wide) = _span(shape, column, columns, shape.width)
    in_channels, first = (shape.ic, 0) if shape.oc else (channels, channel)
    pixel = in_channels + random.randrange(3)
    offset = places[0] + (y * shape.width + x) * shape.ic + first
    yield _copy("LOAD", 1 << 40 | offset, in_spm, (high, wide, in_channels),
                (shape.width * shape.ic, shape.ic), (wide * pixel, pixel))  # fmt: skip
    depth = shape.kernel**2 * (shape.ic if shape.oc else 1)
    yield _copy("LOAD", begin[0], w_spm, (1, 1, depth * channels), (0, 0), (0, 0))
    yield _copy("LOAD", begin[1], p_spm, (1, 1, 12 * channels), (0, 0), (0, 0))
    acc = {"acc_addr": random.randrange(4) + 512 * buffer, "acc_stride": channels}
    f = {"in_row_stride": wide * pixel, "in_pixel_stride": pixel, "in_h": high, "in_w": wide}
    f |= {"out_h": rows, "out_w": columns, "pad_top": top, "pad_left": left}
    f |= {"in_addr": in_spm, "w_addr": w_spm, **acc}
    yield from _sums(shape, f, channels, max(1, shape.ic // 2) if split and channels <= 8 else 0)
    line = columns * channels
    yield encode("REQUANT", **acc, h=rows, w=columns, c=channels, params=p_spm, out_addr=out_spm,
                 out_row_stride=line, out_pixel_stride=channels, rounding=shape.rounding, out_zp=3,
                 lo=-128, hi=127)  # fmt: skip
    _, width, total = shape.out
    place = places[1] + (row * width + column) * total + channel
    yield _copy("STORE", 1 << 40 | place, out_spm, (rows, columns, channels),
                (width * total, total), (line, channels))  # fmt: skip


def _sums(shape: Shape, f: dict[str, int], channels: int, step: int) -> Iterator[Words]:
    """Yield the matrix commands of a tile; a `step` above 0 cuts a 1 x 1 sum along its inputs."""
    f = f | {"kh": shape.kernel, "kw": shape.kernel, "sh": shape.stride, "sw": shape.stride}
    f |= {"dh": 1, "dw": 1, "pad_value": shape.zero_points[0], "in_zp": shape.zero_points[0]}
    f |= {"w_zp": shape.zero_points[1]}
    if not shape.oc:
        yield encode("DWCONV", c=channels, mult=1, **f)
    elif not step or shape.kernel > 1:
        yield encode("CONV", ic=shape.ic, oc=channels, **f)
    else:
        for done in range(0, shape.ic, step):
            part = {"in_addr": f["in_addr"] + done, "w_addr": f["w_addr"] + done * channels}
            part |= {"accumulate": int(done > 0), "ic": min(step, shape.ic - done)}
            yield encode("CONV", oc=channels, **(f | part))


def _span(shape: Shape, start: int, count: int, size: int) -> tuple[int, tuple[int, int]]:
    """Return (first input index, (padding before it, how many are present)) of some outputs."""
    low = start * shape.stride - shape.pad
    high = (start + count - 1) * shape.stride - shape.pad + shape.kernel
    return max(low, 0), (max(-low, 0), min(high, size) - max(low, 0))


def _copy(
    mnemonic: str,
    dram: int,
    spm: int,
    shape: tuple[int, int, int],
    far: tuple[int, int],
    near: tuple[int, int],
) -> Words:
    """Return a transfer of (rows, columns, run); strides of one row or column are left at 0."""
    rows, columns, run = shape
    return encode(
        mnemonic, dram=dram, n0=1, n1=rows, n2=columns, run=run, spm_addr=spm,
        dram_stride1=far[0] if rows > 1 else 0, dram_stride2=far[1] if columns > 1 else 0,
        spm_stride1=near[0] if rows > 1 else 0, spm_stride2=near[1] if columns > 1 else 0,
    )  # fmt: skip
