"""From an NpuGraph to a program: kernels, the entry that calls them, constants and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codegen.assemble import Assembled, assemble
from codegen.expr import Expr, as_expr
from codegen.graph import NpuGraph, Tensor
from codegen.kernel import STANDARD_PARAMS, Call, Kernel, Node, command
from codegen.memory import ConstantBlob, Placement, dram_address, place
from codegen.ops.base import Operator, best_schedule
from codegen.ops.convert import Convert
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One operator (or part of one) in a program: its schedule and the kernel that it calls."""

    operator: Operator
    schedule: Schedule
    kernel: Kernel


@dataclass(frozen=True, slots=True, eq=False)
class NpuProgram:
    """All that is needed to run one region.

    `entry` is kernel IR without parameters; `constants` is region 0; regions 2 and up are the
    inputs, then the outputs. The stream is for one image.
    """

    graph: NpuGraph
    npu: NpuConfig
    layers: tuple[Layer, ...]
    entry: Kernel
    constants: NDArray[np.uint8]
    arena_bytes: int

    def assemble(self) -> Assembled:
        """Return the command stream of one image, with one segment per layer."""
        return assemble(self.entry, self.npu)

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """Return the tensors behind regions 2 and up."""
        return (*self.graph.inputs, *self.graph.outputs)


def build_program(
    graph: NpuGraph, npu: NpuConfig, schedules: Mapping[str, Schedule] | None = None
) -> NpuProgram:
    """Choose schedules, lower every operator and call the kernels in order.

    `schedules` overrides the default by operator name (a part's name, where an operator has
    parts). Operators of equal signature and schedule
    share a kernel. There is a fence between kernels, since each may read what the last wrote.
    Raises ScheduleError if an operator has no legal schedule.
    """
    graph.verify()
    placement = place(graph)
    builder = EntryBuilder(npu, placement)
    for part in _kernels_of(graph, placement):
        chosen = (schedules or {}).get(part.name) or best_schedule(part, npu)
        builder.call(part, chosen)
    entry = Kernel(graph.name, (), tuple(builder.finish()), f"Entry of {graph.name}.")
    return NpuProgram(
        graph, npu, tuple(builder.layers), entry, builder.blob.array(), placement.arena_bytes
    )


def program_operators(graph: NpuGraph) -> list[Operator]:
    """Return what `build_program` makes kernels of, in order: parts, no aliases, and copies."""
    return _kernels_of(graph, place(graph))


def _kernels_of(graph: NpuGraph, placement: Placement) -> list[Operator]:
    operators = [operator for operator in graph.operators if not operator.is_alias]
    operators += [Convert.move(f"{b.name}.copy", a, b) for a, b in placement.copies]
    return [part for operator in operators for part in operator.parts()]


class EntryBuilder:
    """Collects an entry's calls, the kernels that it calls and the constants they read."""

    def __init__(self, npu: NpuConfig, placement: Placement) -> None:
        self.npu, self.placement = npu, placement
        self.blob = ConstantBlob()
        self.layers: list[Layer] = []
        self.nodes: list[Node] = []
        self._kernels: dict[tuple[object, ...], Kernel] = {}

    def call(self, operator: Operator, schedule: Schedule) -> None:
        """Append a fence, where a kernel came before, and the call."""
        if self.nodes:
            self.nodes.append(command("FENCE"))
        kernel = self.kernel(operator, schedule)
        args = self.arguments(operator, schedule)
        label = "+".join(operator.source_names) or operator.name
        self.nodes.append(Call(kernel, args, label))
        self.layers.append(Layer(operator, schedule, kernel))

    def finish(self) -> list[Node]:
        """Return the nodes, ended."""
        return [*self.nodes, command("END")]

    def kernel(self, operator: Operator, schedule: Schedule) -> Kernel:
        """Return the kernel of an operator, shared with those of equal signature and schedule."""
        key = (operator.signature(), schedule)
        if key not in self._kernels:
            self._kernels[key] = operator.lower(schedule, self.npu)
        return self._kernels[key]

    def arguments(self, operator: Operator, schedule: Schedule) -> dict[str, Expr]:
        """Return the arguments of a call that makes all rows; constants go into the blob."""
        values = dict.fromkeys(STANDARD_PARAMS, 0)
        values["row_end"] = operator.rows
        for index, tensor in enumerate(operator.inputs):
            values[f"in{index}"] = self._address(tensor)
        for index, tensor in enumerate(operator.outputs):
            values[f"out{index}"] = self.placement.address(tensor) + operator.output_offset
        for name, array in operator.constants(schedule, self.npu).items():
            values[name] = dram_address(0, self.blob.add(array))
        values |= operator.scalars()
        return {name: as_expr(value) for name, value in values.items()}

    def _address(self, tensor: Tensor) -> int:
        if tensor.data is not None:
            return dram_address(0, self.blob.add(tensor.data))
        return self.placement.address(tensor)
