"""Check operators: NumPy reference = assembled stream on the machine = compiled C's stream.

Cases are checked in batches, since one C compiler run then serves many kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from codegen.assemble import assemble_program
from codegen.compile_c import emitted_streams
from codegen.controller import Program, lower_program
from codegen.emit_c import emit_programs
from codegen.expr import as_expr
from codegen.graph import NpuGraph
from codegen.kernel import FLAG_WEIGHTS_LOADED, Call, Kernel, Node, command
from codegen.ops.base import Operator
from codegen.program import NpuProgram, build_program
from codegen.schedule import Schedule
from runtime_sim.isa.codec import Words
from runtime_sim.machine import Machine, Trace
from runtime_sim.npu import NpuConfig
from runtime_sim.plan import Planned
from runtime_sim.timing import Timeline, simulate
from runtime_sim.verify import verify
from tests.codegen.streams import assert_equal_streams

Arrays = Sequence[NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Case:
    """A graph on an NPU, with input arrays in the order of the graph's inputs.

    `stripes`: each kernel makes its rows in that many calls, with its weights loaded once.
    """

    name: str
    graph: NpuGraph
    npu: NpuConfig
    inputs: Arrays
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    stripes: int = 1

    def describe(self) -> str:
        """Return what a failure must say to be repeated."""
        chosen = "; ".join(f"{k}: {s.describe()}" for k, s in self.schedules.items())
        head = f"{self.name} on {self.npu.name}, {self.stripes} stripes"
        return "\n".join((head, self.graph.print(), chosen))


def graph_of(operator: Operator) -> NpuGraph:
    """Return the graph of one operator."""
    return NpuGraph("lone", (operator,), operator.inputs, operator.outputs, "integer")


def check(
    subject: Operator | NpuGraph,
    npu: NpuConfig,
    inputs: Arrays,
    schedules: Mapping[str, Schedule] | None = None,
) -> Timeline:
    """Check one operator or graph; returns its timeline."""
    graph = graph_of(subject) if isinstance(subject, Operator) else subject
    return check_all([Case("case", graph, npu, inputs, schedules or {})])[0]


def check_all(cases: Sequence[Case]) -> list[Timeline]:
    """Check cases for one NPU, C compiled once for all; returns their timelines.

    Every case: the outputs equal the reference, the verifier passes, the C stream equals the
    assembled one, and the timeline is not below the operators' bounds.
    """
    programs: dict[str, Program] = {}
    built = {}
    for index, case in enumerate(cases):
        program = build_program(case.graph, case.npu, case.schedules)
        if case.stripes > 1:
            program = replace(program, entry=striped(program.entry, case.stripes))
        built[f"case{index}"] = program
        programs[f"case{index}"] = lower_program(program.entry, case.npu)
    compiled = emitted_streams(emit_programs(programs), list(programs))
    timelines = []
    for case, (symbol, program) in zip(cases, built.items(), strict=True):
        words = assemble_program(programs[symbol]).words
        try:
            assert_equal_streams(symbol, words, compiled[symbol])
            timelines.append(check_stream(case, program, words))
        except Exception as error:
            raise AssertionError(f"{case.describe()}\n{error}") from error
    return timelines


def check_stream(case: Case, program: NpuProgram, words: Words) -> Timeline:
    """Check values, safety and cycles of a stream."""
    sizes = {0: program.constants.nbytes, 1: program.arena_bytes}
    sizes |= {2 + index: tensor.nbytes for index, tensor in enumerate(program.arguments)}
    first_output = 2 + len(case.graph.inputs)
    outputs = range(first_output, first_output + len(case.graph.outputs))
    verify(words, case.npu, sizes, outputs)
    wanted = reference(case)
    for how, trace in (("as planned", None), ("command by command", _no_trace)):
        results = execute(case, program, words, trace)
        for tensor, expected, found in zip(case.graph.outputs, wanted, results, strict=True):
            if expected.tobytes() != found.tobytes():
                np.testing.assert_array_equal(found, expected, err_msg=f"{tensor.name}, {how}")
    timeline = simulate(words, case.npu)
    bound = sum(layer.operator.work(case.npu).cycles(case.npu) for layer in program.layers)
    assert timeline.total >= bound, f"{timeline.total} cycles, below the bound of {bound}"
    return timeline


def _no_trace(command: Planned, memories: Sequence[object]) -> None:
    """Watch nothing: a machine with a trace runs every command by itself."""


def execute(
    case: Case, program: NpuProgram, words: Words, trace: Trace | None = None
) -> list[NDArray[np.generic]]:
    """Run a stream on memories full of rubbish; returns the outputs."""
    regions = {0: program.constants, 1: np.full(program.arena_bytes, 0xA5, np.uint8)}
    expected = reference(case)
    results = [np.full(array.nbytes, 0x5A, np.uint8) for array in expected]
    inputs = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in case.inputs]
    regions |= {2 + index: data for index, data in enumerate([*inputs, *results])}
    Machine(case.npu).execute(words, regions, trace=trace)
    return [r.view(e.dtype).reshape(e.shape) for r, e in zip(results, expected, strict=True)]


def reference(case: Case) -> list[NDArray[np.generic]]:
    """Return the graph's outputs, the operators' references chained."""
    values = {id(t): a for t, a in zip(case.graph.inputs, case.inputs, strict=True)}
    for operator in case.graph.operators:
        arguments = [
            tensor.data if tensor.data is not None else values[id(tensor)]
            for tensor in operator.inputs
        ]
        values[id(operator.outputs[0])] = operator.reference(*arguments)
    return [values[id(tensor)] for tensor in case.graph.outputs]


def striped(entry: Kernel, stripes: int) -> Kernel:
    """Return an entry that calls each kernel once per stripe of its rows, with fences between."""
    nodes: list[Node] = []
    for node in entry.body:
        if not isinstance(node, Call):
            nodes.append(node)
            continue
        rows = node.args["row_end"].constant or 0
        size = -(-rows // stripes)
        for begin in range(0, rows, size):
            moved = {"row_begin": as_expr(begin), "row_end": as_expr(min(rows, begin + size))}
            moved["flags"] = as_expr(FLAG_WEIGHTS_LOADED if begin else 0)
            nodes += [command("FENCE")] if begin else []
            nodes.append(Call(node.kernel, {**node.args, **moved}, node.label))
    return replace(entry, body=tuple(nodes))
