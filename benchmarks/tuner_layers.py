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


def optimum_rows(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return what `benchmarks.optimum` has recorded of every layer and NPU."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("optimum*.json"))]
    return [row for text in texts for row in json.loads(text)["figures"]["layers"]]


def known_optima(folder: Path = RESULTS) -> dict[tuple[str, str], int]:
    """Return the optimum of every layer that has one, by (NPU digest, operator key)."""
    rows = optimum_rows(folder)
    return {(row["npu_digest"], row["operator"]): row["optimum_cycles"] for row in rows}


def optimum_of(optima: Mapping[tuple[str, str], int], key: TaskKey) -> int | None:
    """Return the optimum of a task, None where it is not known."""
    return optima.get((key.npu, key.operator))
