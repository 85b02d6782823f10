"""Tasks: the distinct operators of graphs, each on one NPU configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from codegen.graph import NpuGraph, Tensor
from codegen.ops.base import Operator, best_schedule
from codegen.program import program_operators
from codegen.schedule import Schedule
from runtime_sim.isa.table import ISA_VERSION
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.code_version import code_version


@dataclass(frozen=True, slots=True)
class TaskKey:
    """What a measurement belongs to; records of another key are never used.

    `npu` is the configuration's digest, `operator` the kind and the hash of signature and dtypes.
    """

    isa: int
    code: str
    npu: str
    operator: str


def operator_key(operator: Operator) -> str:
    """Return the operator's part of a key: its kind and 16 hexadecimal digits."""
    dtypes = tuple(tensor.dtype for tensor in operator.tensors)
    text = repr((operator.kind, operator.signature(), dtypes))
    return f"{operator.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def task_key(operator: Operator, npu: NpuConfig) -> TaskKey:
    """Return the key of an operator's schedules on a configuration under this code."""
    return TaskKey(ISA_VERSION, code_version(), npu.digest(), operator_key(operator))


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One operator to schedule for one NPU.

    `weight`: how often a model runs it. `nodes`: the names of the model's nodes it stands for.
    """

    operator: Operator
    npu: NpuConfig
    key: TaskKey
    weight: int = 1
    nodes: tuple[str, ...] = ()

    @staticmethod
    def of(operator: Operator, npu: NpuConfig) -> Task:
        """Return the task of a lone operator."""
        return Task(operator, npu, task_key(operator, npu), 1, _nodes(operator))

    @property
    def workload(self) -> str:
        """Return the operator for people: kind, tensors, attributes."""
        inputs = ", ".join(_typed(tensor) for tensor in self.operator.inputs)
        output = _typed(self.operator.outputs[0])
        return f"{self.operator.kind} {inputs} -> {output} {self.operator.describe()}".rstrip()


def default_schedule(task: Task) -> Schedule:
    """Return the heuristic's schedule, in the form that the space has. Raises ScheduleError."""
    return task.operator.canonical(best_schedule(task.operator, task.npu), task.npu)


def graph_tasks(graphs: Iterable[tuple[NpuGraph, NpuConfig]]) -> list[Task]:
    """Return the distinct tasks of graphs, in the order in which they first run."""
    found: dict[TaskKey, Task] = {}
    for graph, npu in graphs:
        for operator in program_operators(graph):
            key = task_key(operator, npu)
            seen = found.get(key) or Task(operator, npu, key, 0)
            nodes = tuple(dict.fromkeys((*seen.nodes, *_nodes(operator))))
            found[key] = Task(seen.operator, npu, key, seen.weight + 1, nodes)
    return list(found.values())


def _nodes(operator: Operator) -> tuple[str, ...]:
    return ("+".join(operator.source_names) or operator.name,)


def _typed(tensor: Tensor) -> str:
    height, width, channels = tensor.hwc
    return f"{height}x{width}x{channels} {tensor.dtype}"
