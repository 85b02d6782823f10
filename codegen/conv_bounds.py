"""Lower bounds on the cycles of convolution schedules, for many schedules at once.

Every bound follows one chain of events that the timeline has to respect. Before the first matrix
command come the first loads; after the last one, a requantisation and a store. In between, an
engine or a memory is busy for as long as all its commands take, and rotating buffers tie the uses
of one buffer into a chain: of `buffers` such chains the longest is at least the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codegen.conv_costs import Columns, ConvCosting, ConvCosts, Floats
from codegen.conv_moves import CONSTANTS, INPUT, OUTPUT, ConvMoves
from codegen.conv_plan import ConvShape
from runtime_sim.isa.cost import CONTROLLER_COST
from runtime_sim.isa.layout import BY_MNEMONIC, SLOTS
from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True)
class ConvBounds:
    """Bounds per schedule, in cycles, each admissible by itself, and the costs they are made of."""

    costs: ConvCosts
    matrix: Floats
    vector: Floats
    load: Floats
    memory: Floats
    controller: Floats
    buffers: Floats
    queue: Floats

    @property
    def all(self) -> Floats:
        """Return the largest, in whole cycles."""
        columns = (
            self.matrix, self.vector, self.load, self.memory,
            self.controller, self.buffers, self.queue,
        )  # fmt: skip
        return np.ceil(np.max(columns, axis=0) - 1e-6)


def conv_bounds(shape: ConvShape, npu: NpuConfig, columns: Columns) -> ConvBounds:
    """Return the bounds of canonical schedules, given as one array per field of Schedule."""
    return _Chains(shape.thinned(), npu, columns).bounds()


def engine_cycles(shape: ConvShape, npu: NpuConfig, columns: Columns) -> Floats:
    """Return how long the busier of the array and the vector unit computes."""
    costing = ConvCosting(shape, npu, columns)
    return np.maximum(costing.matrix()[0], costing.vector()[0])


def first_issue(mnemonic: str) -> int:
    """Return the least cycles of issuing a first command: all its registers have to be written."""
    registers = len(SLOTS[BY_MNEMONIC[mnemonic].opcode]) - 2
    return CONTROLLER_COST.command + CONTROLLER_COST.field * registers


class _Chains:
    """The chains of one shape's schedules."""

    def __init__(self, shape: ConvShape, npu: NpuConfig, columns: Columns) -> None:
        self.shape, self.npu, self.s = shape, npu, columns
        moves = ConvMoves(shape, npu, columns)
        self.costs: ConvCosts = moves.costs()
        self.weights_late = moves.waits_for_weights()
        memories = [npu.region_memory[region] for region in (CONSTANTS, INPUT, OUTPUT)]
        self.latencies = [npu.memories[index].latency for index in memories]
        self.first_latency = min(self.latencies[:2])
        self.shared = memories[0] == memories[1] == memories[2]
        self.converts_in = shape.source.needs_convert(shape.a_type)
        self.converts_out = shape.target.needs_convert(shape.out_type)
        passes = 2 if self.converts_out else 1
        c = self.costs
        self.vector, self.last_vector = passes * c.vector, passes * c.last_vector
        self.issue = first_issue("LOAD")
        self.loaded = self.issue + self.first_latency + c.first_input
        self.begin = np.maximum(self.loaded + c.first_weights, self.loaded + c.first_convert)
        self.end = self.last_vector + self.latencies[2] + c.last_store

    def bounds(self) -> ConvBounds:
        """Return all bounds."""
        c = self.costs
        data = c.input + c.weights + c.once
        vector = self.begin + c.first_matrix + self.vector
        if self.converts_in:
            vector = self.loaded + c.convert_in + self.vector
        load = self.issue + self.first_latency + data + self.end
        memory = load
        if self.shared:
            memory = self.issue + self.first_latency + data + c.store
        return ConvBounds(
            costs=c,
            matrix=np.maximum(self.begin, self.loaded + self.weights_late) + c.matrix + self.end,
            vector=vector + self.latencies[2] + c.last_store,
            load=load,
            memory=memory,
            controller=self._controller(),
            buffers=self._buffers(),
            queue=self._queue(),
        )

    def _controller(self) -> Floats:
        """Return the least that issuing all commands takes."""
        c, cost = self.costs, CONTROLLER_COST
        commands = c.steps + c.tiles * (3 if self.converts_out else 2)
        commands = commands + c.input_uses * (2 if self.converts_in else 1) + c.weight_uses
        rounds = c.steps // np.asarray(self.s["unroll"], np.int64)
        return (
            self.issue + cost.command * commands + cost.iteration * rounds
            + self.latencies[2] + c.last_store
        )  # fmt: skip

    def _buffers(self) -> Floats:
        """Return the mean of the chains through one buffer, for the operand where it is longest."""
        c, s = self.costs, self.s
        in_, weight, out, acc = (
            np.asarray(s[f"{name}_buffers"], np.int64) for name in ("in", "weight", "out", "acc")
        )
        acc_tiles = np.where((s["order"] == "depth_outer") & (c.depths > 1), c.channels, 1)
        waits = c.input_uses * self.latencies[1] + c.input
        after = self.latencies[2]
        chains = [
            self.begin + (c.matrix + c.vector) / (acc * acc_tiles) + after,
            self.issue + (self.vector - (c.vector if self.converts_out else 0)
                          + c.tiles * self.latencies[2] + c.store) / out,
        ]  # fmt: skip
        if self.converts_in:
            chains.append(self.issue + (waits + c.convert_in) / 2 + after)
            chains.append(self.loaded + (c.convert_in + c.matrix) / in_ + after)
        else:
            # Windows that end in the padding load nothing where the others' rows are kept, and a
            # tile's slices are loaded while others are read.
            chain = self.issue + (waits + c.matrix) / in_ + after
            chains.append(np.where((s["halo"] == "keep") | (s["load_ic"] == "tile"), 0, chain))
        streamed = c.weight_uses * self.latencies[0] + c.weights + c.matrix
        streams = self.issue + streamed / weight + after
        chains.append(np.where(s["weights"] == "stream", streams, 0))
        return np.max(chains, axis=0)

    def _queue(self) -> Floats:
        """Return the mean of the chains that the memory's order makes of loads and stores.

        Where every step loads a tile and completes one, the load for step t + ahead + 2 follows
        the store of step t on the same memory.
        """
        c, s = self.costs, self.s
        prefetch = np.asarray(s.get("prefetch", np.ones_like(c.steps)), np.int64)
        ahead = np.minimum(prefetch, np.asarray(s["in_buffers"], np.int64) - 1)
        one = (c.input_uses == c.steps) & (c.depths == 1)
        chain = c.matrix + self.vector + c.tiles * self.latencies[2] + c.store + c.input
        mean = self.issue + chain / (ahead + 2)
        return np.where(one & self.shared, mean, 0.0)
