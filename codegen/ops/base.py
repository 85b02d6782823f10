"""What every operator of an NpuGraph provides, and the registry that finds the operators."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.graph import Tensor
from codegen.kernel import Kernel
from codegen.schedule import Schedule, ScheduleError
from runtime_sim.npu import NpuConfig

Constraint = Callable[["Operator", NpuConfig], "str | None"]
"""Returns None where the operator is acceptable, else the value seen. Its docstring is the rule:
what users read in `vnpu explain` and in the documentation."""

Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class Work:
    """What an operator must at least do on one image, whatever its schedule.

    matrix_cycles: whole array passes. vector_elements: element passes of the vector unit.
    dram_bytes: compulsory traffic in whole bursts (inputs really read, weights, parameters,
    outputs). macs: multiply-accumulates.
    """

    matrix_cycles: int = 0
    vector_elements: int = 0
    dram_bytes: int = 0
    macs: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operator(ABC):
    """One integer operator: `inputs` are activations, constants are fields of the subclass."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    source_names: tuple[str, ...] = ()

    kind: ClassVar[str]
    constraints: ClassVar[tuple[Constraint, ...]] = ()

    def describe(self) -> str:
        """Return the attributes in one short text."""
        return ""

    @abstractmethod
    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the output for NHWC (or as the tensor's layout says) inputs of one image."""

    @abstractmethod
    def signature(self) -> tuple[object, ...]:
        """Return all that the kernel's code depends on: equal signatures share a kernel."""

    @abstractmethod
    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return legal schedules, best first by the documented cost estimate."""

    @abstractmethod
    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel; ScheduleError if the schedule is not legal on `npu`."""

    def scalars(self) -> dict[str, int]:
        """Return the kernel's scalar arguments."""
        return {}

    def constants(self, schedule: Schedule, npu: NpuConfig) -> Arrays:
        """Return the constant arguments by parameter name, packed as the kernel reads them."""
        del schedule, npu
        return {}

    def work(self, npu: NpuConfig) -> Work:
        """Return the operator's lower bounds on `npu`."""
        del npu
        return Work()

    def rejections(self, npu: NpuConfig) -> list[str]:
        """Return why the NPU cannot take this operator; empty where it can."""
        reasons = []
        for constraint in self.constraints:
            seen = constraint(self, npu)
            if seen is not None:
                rule = " ".join((constraint.__doc__ or constraint.__name__).split()).rstrip(".")
                reasons.append(f"{rule} (seen {seen})" if seen else rule)
        if not reasons and not self.is_alias and not self.schedules(npu):
            reasons.append(f"no tile of it fits the memories of {npu.name}")
        return reasons

    @property
    def is_alias(self) -> bool:
        """Return whether the output is the input's bytes under another shape."""
        return False


def best_schedule(operator: Operator, npu: NpuConfig) -> Schedule:
    """Return the default schedule; ScheduleError if nothing fits."""
    schedules = operator.schedules(npu)
    if not schedules:
        raise ScheduleError(
            f"{operator.name}: {operator.kind} has no legal schedule on {npu.name}",
            seen=operator.describe(),
            limit=f"SPM {npu.spm_kib} KiB, ACC {npu.acc_kib} KiB",
            fix="use an NPU with more scratchpad, or leave the operator on the CPU",
        )
    return schedules[0]


def kernel_name(operator: Operator, schedule: Schedule) -> str:
    """Return a C identifier for the operator's kernel: kind, output shape and a short hash."""
    key = hashlib.sha256(repr((operator.signature(), schedule)).encode()).hexdigest()[:8]
    shape = "x".join(map(str, operator.outputs[0].hwc))
    return f"{operator.kind}_{shape}_{key}"
