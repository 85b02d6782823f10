"""What every operator of an NpuGraph provides."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.graph import Tensor
from codegen.kernel import Kernel
from codegen.schedule import Schedule, ScheduleError
from codegen.space import Knob, Space
from codegen.tiles import Axis
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig

if TYPE_CHECKING:
    from codegen.ops.draw import CaseSource

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

    def cycles(self, npu: NpuConfig) -> float:
        """Return the lower bound in cycles: the largest of the three engines' times."""
        bandwidth = sum(memory.bytes_per_cycle for memory in npu.memories)
        vector = self.vector_elements / npu.lanes
        return max(self.matrix_cycles, vector, self.dram_bytes / bandwidth)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Operator(ABC):
    """One integer operator: `inputs` are activations, constants are fields of the subclass."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    source_names: tuple[str, ...] = ()

    kind: ClassVar[str]
    constraints: ClassVar[tuple[Constraint, ...]] = ()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def rounding_mode(self) -> Rounding | None:
        """Return the rounding mode of the result, if it is rounded."""
        return None

    @property
    def is_alias(self) -> bool:
        """Return whether the output is the input's bytes under another shape."""
        return False

    @property
    def rows(self) -> int:
        """Return how many rows the kernel makes."""
        return self.outputs[0].hwc[0]

    @property
    def output_offset(self) -> int:
        """Return where in the output the operator's first result lies, in bytes."""
        return 0

    @property
    def fills(self) -> tuple[slice, slice, slice] | None:
        """Return the rows, columns and channels of its output that it makes; None for all."""
        return None

    def parts(self) -> tuple[Operator, ...]:
        """Return the operators whose kernels run in turn: itself, unless it is made of others."""
        return (self,)

    def axes(self) -> tuple[Axis, ...]:
        """Return the row and column axes of an operator that slides a window."""
        return ()

    def describe(self) -> str:
        """Return the attributes in one short text."""
        return ""

    @classmethod
    @abstractmethod
    def draw(cls, source: CaseSource) -> Operator:
        """Return a random operator of this kind: a test case."""

    @abstractmethod
    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the output for inputs of one image, each as its tensor lies in memory."""

    @abstractmethod
    def signature(self) -> tuple[object, ...]:
        """Return all that the kernel's code depends on: equal signatures share a kernel."""

    @abstractmethod
    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return legal schedules, best first by the documented cost estimate."""

    def knobs(self, npu: NpuConfig) -> tuple[Knob, ...]:
        """Return the knobs of the operator's schedules; none where it has no kernel."""
        del npu
        return ()

    def canonical(self, schedule: Schedule, npu: NpuConfig) -> Schedule:
        """Return the schedule of the same stream whose knobs without effect have fixed values.

        Raises ScheduleError where a knob has a value that no kernel may have.
        """
        if not schedule.in_range:
            raise illegal_schedule(self, schedule, npu)
        return self.reduced(schedule)

    def reduced(self, schedule: Schedule) -> Schedule:
        """Return `canonical` of a schedule whose knobs are in range."""
        return schedule

    def is_legal(self, schedule: Schedule, npu: NpuConfig) -> bool:
        """Return whether the kernel of a schedule fits `npu`."""
        del schedule, npu
        return False

    def space(self, npu: NpuConfig) -> Space:
        """Return the schedule space; ScheduleError where no point is legal."""
        return Space(self, npu)

    @abstractmethod
    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel; ScheduleError if the schedule is not legal on `npu`."""

    def no_schedule(self, npu: NpuConfig) -> ScheduleError:
        """Return the error of an operator that nothing fits on `npu`."""
        return ScheduleError(
            f"{self.name}: {self.kind} has no legal schedule on {npu.name}",
            seen=self.describe(),
            limit=f"SPM {npu.spm_kib} KiB, ACC {npu.acc_kib} KiB",
            fix="use an NPU with more scratchpad, or leave the operator on the CPU",
        )

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
                reasons.append(f"{rule_text(constraint).rstrip('.')} (seen {seen})")
        if not reasons and not self.is_alias and not self.schedules(npu):
            reasons.append(f"no tile of it fits the memories of {npu.name}")
        return reasons


def rule_text(constraint: Constraint) -> str:
    """Return a constraint's docstring on one line."""
    return " ".join((constraint.__doc__ or "").split())


def best_schedule(operator: Operator, npu: NpuConfig) -> Schedule:
    """Return the default schedule; ScheduleError if nothing fits."""
    schedules = operator.schedules(npu)
    if not schedules:
        raise operator.no_schedule(npu)
    return schedules[0]


def illegal_schedule(operator: Operator, schedule: Schedule, npu: NpuConfig) -> ScheduleError:
    """Return the error of a schedule that the operator cannot have on `npu`."""
    return ScheduleError(
        f"{operator.name}: schedule is not legal on {npu.name}",
        seen=schedule.describe(),
        limit=f"SPM {npu.spm_kib} KiB, ACC {npu.acc_kib} KiB",
        fix="choose one of the operator's schedules",
    )


def kernel_name(operator: Operator, schedule: Schedule) -> str:
    """Return a C identifier for the operator's kernel: kind, output shape and a short hash."""
    key = hashlib.sha256(repr((operator.signature(), schedule)).encode()).hexdigest()[:8]
    shape = "x".join(map(str, operator.outputs[0].hwc))
    return f"{operator.kind}_{shape}_{key}"
