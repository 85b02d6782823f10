"""What the transfers of convolution schedules cost: inputs, weights, parameters and outputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from codegen.conv_costs import ConvCosting, ConvCosts, Floats, Ints, lane_passes
from codegen.conv_plan import RECORD_BYTES, WEIGHT_LOOPS
from codegen.conv_steps import LOOPS
from codegen.tiles import ALIGNMENT
from codegen.transfer_counts import Windows
from runtime_sim.npu import Memory

CONSTANTS, INPUT, OUTPUT = 0, 2, 3
"""The regions of a lone operator's constants, input and output."""

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]


class ConvMoves(ConvCosting):
    """Adds the transfers to the engines' cycles."""

    def costs(self) -> ConvCosts:
        """Return all costs."""
        matrix, first_matrix = self.matrix()
        vector, last_vector = self.vector()
        store, last_store = self._stores()
        weights, first_weights, weight_uses = self._weights()
        loads, first_load, converts, first_convert, uses = self._inputs()
        c = self.counts
        return ConvCosts(
            rows=c["row"], cols=c["col"], channels=c["channel"], depths=c["depth"],
            input_uses=uses, weight_uses=weight_uses,
            matrix=matrix, first_matrix=first_matrix, vector=vector, last_vector=last_vector,
            convert_in=converts, first_convert=first_convert,
            input=loads, first_input=first_load, weights=weights, first_weights=first_weights,
            once=self._once(), store=store, last_store=last_store,
        )  # fmt: skip

    # --- which loops load an operand again ------------------------------------------------------

    def _repeats(self, depends_on: frozenset[str], order: str) -> Ints:
        """Return how often an operand's tiles are all loaded: for each iteration of the loops
        outside the innermost loop that changes the tile, but those that change it themselves."""
        times, inside = np.ones(self.count, np.int64), np.zeros(self.count, bool)
        turns: dict[str, Mask] = {name: count > 1 for name, count in self.counts.items()}
        # A load that serves all row tiles does not change with them.
        turns["row"] &= np.asarray(self.s["load_tiles"], np.int64) < self.counts["row"]
        for name in reversed(LOOPS[order]):
            if name in depends_on:
                inside |= turns[name]
            else:
                times *= np.where(inside, self.counts[name], 1)
        return times

    def _kinds(self) -> Iterator[tuple[Mask, frozenset[str], str, Windows]]:
        """Yield what input tiles hold: the schedules, the loops that change it, their order and
        the slices of channels."""
        shape, order = self.shape, self.s["order"]
        whole: Windows = [(0, shape.source.channels)]
        for name in LOOPS:
            mine = order == name
            if shape.depthwise:
                for index, tiling in enumerate(self.channel.windows):
                    slices = [(a // shape.mult, b // shape.mult) for a, b in tiling]
                    yield mine & (self.channel.of == index), _DEPTHWISE, name, slices
            elif name == "channel_outer" and shape.groups > 1:
                for index, tiling in enumerate(self.channel.windows):
                    groups = [a // shape.group_out * shape.group_in for a, _ in tiling]
                    slices = [(g, g + shape.group_in) for g in groups]
                    yield mine & (self.channel.of == index), _DEPTHWISE, name, slices
            elif name == "depth_outer":
                for index, tiling in enumerate(self.depth.windows):
                    yield mine & (self.depth.of == index), _SLICED, name, tiling
            else:
                sliced = np.asarray(self.s["load_ic"] == "tile")
                yield mine & ~sliced, _SPATIAL, name, whole
                for index, tiling in enumerate(self.depth.windows):
                    yield mine & sliced & (self.depth.of == index), _SPATIAL, name, tiling

    def _inputs(self) -> tuple[Floats, Floats, Floats, Floats, Ints]:
        """Return the input loads' cycles, the first one's, the same of conversions, and loads."""
        memory, source = self.npu.memory_of(INPUT), self.shape.source
        total, first = np.zeros(self.count), np.zeros(self.count)
        converts, first_convert = np.zeros(self.count), np.zeros(self.count)
        uses = np.ones(self.count, np.int64)
        tiles = self.input.rows.counts * self.input.cols.counts
        for mine, depends_on, order, slices in self._kinds():
            if not mine.any():
                continue
            times = self._repeats(depends_on, order)
            every, at_first, _ = self.input.bursts(source, slices, memory.burst)
            total[mine] = (every * times)[mine]
            first[mine] = at_first[mine]
            uses[mine] = (tiles * len(slices) * times)[mine]
            if source.needs_convert(self.shape.a_type):
                lanes = self.npu.lanes
                passes = sum(self.input.total(lane_passes(b - a, lanes)) for a, b in slices)
                converts[mine] = (passes * times)[mine]
                a, b = slices[0]
                first_convert[mine] = self.input.of_end(0, lane_passes(b - a, lanes))[mine]
        rate = memory.burst / memory.bytes_per_cycle
        keeps = self.s["halo"] == "keep"
        rows, cols = self.shape.rows.elements_read, self.shape.cols.elements_read
        bytes_read = rows * cols * source.channels * source.item
        total[keeps] = bytes_read / memory.burst  # every row once, in whole bursts at best
        uses[keeps] = 1
        return total * rate, first * rate, converts, first_convert, uses

    def _weights(self) -> tuple[Floats, Floats, Ints]:
        """Return the weight loads' cycles, the first one's, and how many there are."""
        distinct, inverse = self._weight_tilings()
        pieces = [self._pieces(channel, depth) for channel, depth in distinct]
        every, first, count = np.array([(p.sum(), p[0, 0], p.size) for p in pieces]).T[:, inverse]
        times = np.ones(self.count, np.int64)
        streams = self.s["weights"] == "stream"
        for name in LOOPS:
            mine = streams & (self.s["order"] == name)
            times[mine] = self._repeats(WEIGHT_LOOPS, name)[mine]
        return every * times, first, count.astype(np.int64) * times

    def _weight_tilings(self) -> tuple[list[tuple[int, int]], Ints]:
        """Return the distinct (channel tiling, depth tiling), and which each schedule has."""
        keys = np.stack([self.channel.of, self.depth.of], axis=1)
        distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
        return [(channel, depth) for channel, depth in distinct.tolist()], inverse.reshape(-1)

    def _pieces(self, channel: int, depth: int) -> Floats:
        """Return the cycles of loading each weight tile, (channel tiles, depth tiles)."""
        shape, memory = self.shape, self.npu.memory_of(CONSTANTS)
        rows = []
        for a, b in self.channel.windows[channel]:
            sizes = [(a * shape.taps, (b - a) * shape.taps)]
            if not shape.depthwise:
                start, per_input = a * shape.depth, shape.taps * (b - a)
                sizes = [
                    (start + c * per_input, (d - c) * per_input)
                    for c, d in self.depth.windows[depth]
                ]
            rows.append([constant_bursts(offset, size, memory) for offset, size in sizes])
        return np.array(rows) * (memory.burst / memory.bytes_per_cycle)

    def waits_for_weights(self) -> Floats:
        """Return how long weights at least hold the array up, from its first input on.

        In the first spatial tile step j needs all weights loaded before it and its own. What the
        array has done until then counts against that.
        """
        found = np.zeros(self.count)
        for swapped in (False, True):
            pixels = self.out.of_end(0, self._pixel_blocks if swapped else self._pixels())
            stationary = (self.s["micro_kernel"] == "pixel_stationary") == swapped
            for mine, order, channel, depth in self._by_weights(stationary):
                pieces = self._pieces(channel, depth)
                passes = self._piece_passes(channel, depth, swapped)
                if order == "depth_outer":
                    pieces, passes = pieces.T, passes.T
                if order == "channel_outer":
                    pieces, passes = pieces[:1, :1], passes[:1, :1]
                depths, tiles = pieces.shape if order == "depth_outer" else pieces.shape[::-1]
                completes = (depths - 1) * (tiles if order == "depth_outer" else 1)
                found[mine] = self._latest(mine, pixels, pieces, passes, completes)
        return found

    def _by_weights(self, among: Mask) -> Iterator[tuple[Mask, str, int, int]]:
        """Yield schedules of one order and one tiling of the weights, with these."""
        distinct, inverse = self._weight_tilings()
        for order in LOOPS:
            for index, (channel, depth) in enumerate(distinct):
                mine = among & (self.s["order"] == order) & (inverse == index)
                if mine.any():
                    yield mine, order, channel, depth

    def _latest(
        self, mine: Mask, pixels: Floats, pieces: Floats, passes: Ints, completes: int
    ) -> Floats:
        """Return by how much the latest of the weight pieces holds the array up.

        What is loaded once is issued with the pieces of step `completes`, or of a later one where
        weights run ahead of inputs.
        """
        loaded = np.cumsum(pieces.reshape(-1))
        before = np.cumsum(passes.reshape(-1)) - passes.reshape(-1)
        steps = np.arange(len(before))
        fill = self.npu.array_rows + self.npu.array_cols - 2
        done = pixels[mine, None] * before + fill * steps
        ahead = np.asarray(self.s["prefetch"], np.int64)[mine, None]
        once = np.where(steps > completes + ahead, self._once()[0], 0.0)
        return np.asarray((loaded + once - done).max(axis=1))

    def _piece_passes(self, channel: int, depth: int, swapped: bool) -> Ints:
        """Return the passes a block of pixels takes with each weight tile, at the most (packed taps
        take fewer); where pixels stay in the array, the cycles."""
        npu, sizes = self.npu, [b - a for a, b in self.channel.windows[channel]]
        cost = [max(n, npu.array_rows) if swapped else -(-n // npu.array_cols) for n in sizes]
        blocks = np.array(cost)
        if self.shape.depthwise:
            return blocks[:, None]
        inner = np.array([-(-(d - c) // npu.array_rows) for c, d in self.depth.windows[depth]])
        return np.asarray(blocks[:, None] * inner * self.shape.taps)

    def _once(self) -> Floats:
        """Return the cycles of what is loaded once: parameters and zero points."""
        memory, channels = self.npu.memory_of(CONSTANTS), self.shape.target.channels
        bursts = constant_bursts(0, channels * RECORD_BYTES, memory)
        if self.shape.vector_zero_points:
            bursts += constant_bursts(0, channels, memory)
        return np.full(self.count, bursts * memory.burst / memory.bytes_per_cycle)

    def _stores(self) -> tuple[Floats, Floats]:
        """Return the stores' cycles, and the last one's."""
        memory, total, last = self.npu.memory_of(OUTPUT), np.zeros(self.count), np.zeros(self.count)
        for index, slices in enumerate(self.channel.windows):
            mine = self.channel.of == index
            every, _, final = self.out.bursts(self.shape.target, slices, memory.burst)
            total[mine], last[mine] = every[mine], final[mine]
        rate = memory.burst / memory.bytes_per_cycle
        return total * rate, last * rate


_SPATIAL = frozenset({"row", "col"})
_DEPTHWISE, _SLICED = _SPATIAL | {"channel"}, _SPATIAL | {"depth"}


def constant_bursts(offset: int, size: int, memory: Memory) -> int:
    """Return the bursts of a run of constants, or the fewest it can have where bursts straddle."""
    if ALIGNMENT % memory.burst:
        return -(-size // memory.burst)
    phase = offset % memory.burst
    return (phase + size - 1) // memory.burst + 1
