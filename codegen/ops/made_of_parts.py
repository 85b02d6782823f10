"""What operators without a kernel of their own share: their parts' kernels run in turn."""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar

from codegen.kernel import Kernel
from codegen.ops.base import Operator, Work
from codegen.schedule import Schedule, ScheduleError
from codegen.space import Knob
from runtime_sim.npu import NpuConfig


class MadeOfParts(Operator):
    """An operator whose `parts` have the kernels; `noun` names it in messages."""

    __slots__ = ()

    noun: ClassVar[str]

    def signature(self) -> tuple[object, ...]:
        """Return the parts' signatures."""
        return (self.kind, *(part.signature() for part in self.parts()))

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return each part's best schedule; nothing if one has none."""
        found = [part.schedules(npu) for part in self.parts()]
        return [schedules[0] for schedules in found] if all(found) else []

    def knobs(self, npu: NpuConfig) -> tuple[Knob, ...]:
        """Return none: only the parts have kernels."""
        del npu
        return ()

    def is_legal(self, schedule: Schedule, npu: NpuConfig) -> bool:
        """Return False: only the parts have kernels."""
        del schedule, npu
        return False

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Refuse: only the parts have kernels."""
        del schedule, npu
        raise ScheduleError(f"{self.name}: {self.noun} has no kernel of its own")

    def work(self, npu: NpuConfig) -> Work:
        """Return the sum of the parts' bounds."""
        works = [part.work(npu) for part in self.parts()]
        names = [field.name for field in fields(Work)]
        return Work(**{name: sum(getattr(work, name) for work in works) for name in names})
