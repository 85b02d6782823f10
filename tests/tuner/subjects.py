"""Small operators to tune."""

from __future__ import annotations

from codegen.ops import operators
from codegen.ops.base import Operator
from runtime_sim.npu import NpuConfig, load
from tests.codegen.drawn import TINY, source_of
from tvm_vnpu.tuner.task import Task

NPU = load("vnpu-256")


def operator(kind: str, seed: int = 0, npu: NpuConfig = NPU) -> Operator:
    """Return a small random operator that the NPU takes."""
    source = source_of((seed, *kind.encode()))
    drawn = (operators()[kind].draw(source) for _ in range(100))
    return next(found for found in drawn if not found.rejections(npu))


def tasks(*kinds: str, npu: NpuConfig = NPU) -> list[Task]:
    """Return a task for each kind."""
    return [Task.of(operator(kind, npu=npu).parts()[-1], npu) for kind in kinds]


__all__ = ["NPU", "TINY", "operator", "tasks"]
