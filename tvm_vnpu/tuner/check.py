"""Check a schedule before it is kept: static verifier, and machine against NumPy reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from codegen.graph import Tensor
from codegen.measure import lone_graph
from codegen.memory import ARENA, CONSTANTS, FIRST_ARGUMENT
from codegen.ops.base import Operator
from codegen.program import NpuProgram, build_program
from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from runtime_sim.isa.codec import Words
from runtime_sim.machine import Machine
from runtime_sim.npu import NpuConfig
from runtime_sim.verify import VerifyError, verify

Array = NDArray[np.generic]
_RUBBISH = 0x5A


def fault_of(operator: Operator, schedule: Schedule, npu: NpuConfig, seed: int = 0) -> str:
    """Return what is wrong with a schedule's kernel, '' where nothing is.

    The operator alone is built, verified, and run on random data; every byte of its output must
    equal the reference's, and every byte beside it must be untouched.
    """
    graph = lone_graph(operator)
    try:
        program = build_program(graph, npu, {operator.name: schedule})
        words = program.assemble().words
        _verify(operator, program, words)
        rng = np.random.default_rng(seed)
        arrays = {id(tensor): random_values(tensor, rng) for tensor in graph.inputs}
        found = _run(program, words, [arrays[id(tensor)] for tensor in graph.inputs])
    except VnpuError as error:
        return str(error)
    given = [t.data if t.data is not None else arrays[id(t)] for t in operator.inputs]
    expected = _expected(operator, given)
    if found.tobytes() == expected.tobytes():
        return ""
    wrong = int(np.count_nonzero(found.view(np.uint8) != expected.view(np.uint8)))
    return f"{wrong} of {expected.nbytes} bytes differ from the reference"


def random_values(tensor: Tensor, rng: np.random.Generator) -> Array:
    """Return random elements: integers of the whole range, floats around the quantised range."""
    if tensor.dtype == "float32":
        scale = tensor.quant.scale if tensor.quant is not None else 1.0
        return (rng.normal(0, 80, tensor.shape) * scale).astype(np.float32)
    limits = np.iinfo(tensor.dtype)
    return rng.integers(limits.min, limits.max, tensor.shape, tensor.dtype, endpoint=True)


def _region_sizes(program: NpuProgram) -> dict[int, int]:
    sizes = {CONSTANTS: program.constants.nbytes, ARENA: program.arena_bytes}
    return sizes | {FIRST_ARGUMENT + i: t.nbytes for i, t in enumerate(program.arguments)}


def _verify(operator: Operator, program: NpuProgram, words: Words) -> None:
    """Raise VerifyError for an unsafe stream.

    What fills a part of its output leaves the rest unwritten. The verifier finds that last of all,
    and the machine's bytes then tell whether the part is whole.
    """
    try:
        outputs = (FIRST_ARGUMENT + len(program.graph.inputs),)
        verify(words, program.npu, _region_sizes(program), outputs)
    except VerifyError as error:
        if error.rule != "outputs_written" or operator.fills is None:
            raise


def _run(program: NpuProgram, words: Words, inputs: Sequence[Array]) -> Array:
    """Run a stream on memories full of rubbish and return the output."""
    target = program.graph.outputs[0]
    result = np.full(target.nbytes, _RUBBISH, np.uint8)
    regions = {
        CONSTANTS: program.constants,
        ARENA: np.full(program.arena_bytes, _RUBBISH, np.uint8),
    }
    flat = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in inputs]
    regions |= {FIRST_ARGUMENT + index: data for index, data in enumerate([*flat, result])}
    Machine(program.npu).execute(words, regions)
    return result.view(target.dtype)


def _expected(operator: Operator, given: Sequence[Array]) -> Array:
    """Return the whole output as the reference has it, flat; rubbish where nothing is made."""
    if operator.fills is None:
        return np.ascontiguousarray(operator.reference(*given)).reshape(-1)
    target = operator.outputs[0]
    whole = np.full(target.nbytes, _RUBBISH, np.uint8).view(target.dtype).reshape(target.hwc)
    part = whole[operator.fills]
    alone = replace(operator, outputs=(replace(target, shape=(1, *part.shape)),))
    part[...] = alone.reference(*given).reshape(part.shape)
    return whole.reshape(-1)
