"""Reshape and flatten: the same bytes under another shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.kernel import Kernel
from codegen.ops.base import Constraint, Operator
from codegen.ops.draw import CaseSource
from codegen.schedule import Schedule, ScheduleError
from runtime_sim.npu import NpuConfig


def _same_bytes(operator: Operator, npu: NpuConfig) -> str | None:
    """Input and output must have the same type and number of elements."""
    del npu
    a, b = operator.inputs[0], operator.outputs[0]
    same = a.dtype == b.dtype and a.elements == b.elements
    return None if same else f"{a.dtype} {a.shape} to {b.dtype} {b.shape}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reshape(Operator):
    """y = x.reshape(shape), in memory order; no command is issued."""

    kind: ClassVar[str] = "reshape"
    constraints: ClassVar[tuple[Constraint, ...]] = (_same_bytes,)

    @classmethod
    def draw(cls, source: CaseSource) -> Reshape:
        """Return a random reshape: flattened, or with rows and columns changed."""
        x = source.image()
        height, width, channels = x.hwc
        shape = source.pick((height * width * channels,), (height * width, channels))
        if source.chance(0.3):
            shape = (width, height, channels)
        result = replace(source.tensor(shape, x.dtype), quant=x.quant)
        return cls(name=source.name(cls.kind), inputs=(x,), outputs=(result,))

    @property
    def is_alias(self) -> bool:
        """Return True: the output shares the input's bytes."""
        return True

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the reshaped input."""
        return inputs[0].reshape(self.outputs[0].shape)

    def signature(self) -> tuple[object, ...]:
        """Return the kind: there is no kernel."""
        return (self.kind,)

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return nothing: there is no kernel."""
        del npu
        return []

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Refuse: an alias has no kernel."""
        del schedule, npu
        raise ScheduleError(f"{self.name}: a reshape has no kernel")
