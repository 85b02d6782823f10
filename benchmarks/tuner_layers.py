"""The layers that the tuner's benchmarks tune, and the known optima of their spaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

from benchmarks.harness import RESULTS
from codegen.graph import NpuGraph
from codegen.program import build_program
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import simulate
from tvm_vnpu.tuner.history import History
from tvm_vnpu.tuner.task import Task, TaskKey

OPTIMA = RESULTS / "optimum.json"


def network_tasks(make: Callable[[], onnx.ModelProto], npu: str) -> list[Task]:
    """Return the tasks of a network with placeholder ranges."""
    from tvm_vnpu.quantize import quantize_uncalibrated
    from tvm_vnpu.relax import from_onnx
    from tvm_vnpu.tuner import extract_tasks

    tasks: list[Task] = extract_tasks(quantize_uncalibrated(from_onnx(make()), npu=npu), npu=npu)
    return tasks


def network_cycles(
    make: Callable[[], onnx.ModelProto], npu: str, history: History
) -> tuple[int, int]:
    """Return the cycles of a network with default schedules, and with the best of a history."""
    from tvm_vnpu.quantize import quantize_uncalibrated
    from tvm_vnpu.relax import from_onnx
    from tvm_vnpu.relax.region_graphs import region_graphs

    module = quantize_uncalibrated(from_onnx(make()), npu=npu)
    before = after = 0
    for graph, config in region_graphs(module, None, npu, None):
        before += _program_cycles(graph, config, {})
        after += _program_cycles(graph, config, history.schedules(graph, config))
    return before, after


def _program_cycles(graph: NpuGraph, npu: NpuConfig, schedules: Mapping[str, Schedule]) -> int:
    stream = build_program(graph, npu, schedules).assemble()
    return simulate(stream.words, npu).total


def known_optima(path: Path = OPTIMA) -> dict[tuple[str, str], int]:
    """Return the optimum of every layer that has one, by (NPU digest, operator key).

    `benchmarks.optimum` records them; any rows of its figures that name `npu_digest`, `operator`
    and `optimum_cycles` count.
    """
    if not path.exists():
        return {}
    found: dict[tuple[str, str], int] = {}
    _collect(json.loads(path.read_text(encoding="utf-8"))["figures"], found)
    return found


def _collect(value: Any, found: dict[tuple[str, str], int]) -> None:
    if isinstance(value, Mapping):
        if {"npu_digest", "operator", "optimum_cycles"} <= set(value):
            found[value["npu_digest"], value["operator"]] = int(value["optimum_cycles"])
        for item in value.values():
            _collect(item, found)
    elif isinstance(value, list):
        for item in value:
            _collect(item, found)


def optimum_of(optima: Mapping[tuple[str, str], int], key: TaskKey) -> int | None:
    """Return the optimum of a task, None where it is not known."""
    return optima.get((key.npu, key.operator))
