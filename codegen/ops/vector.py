"""What the vector operators share: schedules, kernels and the fields of their operands."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from codegen import vector_schedule
from codegen.expr import ExprLike
from codegen.kernel import STANDARD_PARAMS, Comment, Instr, Kernel, Node, spm_fields
from codegen.ops.base import Operator, Work, illegal_schedule, kernel_name
from codegen.schedule import Schedule
from codegen.space import Knob
from codegen.tiles import Axis, Span
from codegen.vector_kernel import Operand, VectorKernel, VectorShape, VectorStep
from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VectorOperator(Operator):
    """An operator that one vector command per tile computes."""

    @abstractmethod
    def shape(self) -> VectorShape:
        """Return what tiling depends on."""

    @abstractmethod
    def emit(self, step: VectorStep) -> Instr | tuple[Node, ...]:
        """Return the command of a step, or several in order."""

    @property
    def passes(self) -> int:
        """Return vector passes per output element."""
        return 1

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return what the code depends on beside the shape."""
        return ()

    def signature(self) -> tuple[object, ...]:
        """Return shape and attributes."""
        return (self.kind, self.shape(), self.attributes)

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return the legal schedules, best estimate first."""
        return list(vector_schedule.schedules(self.shape(), self.passes, npu))

    def knobs(self, npu: NpuConfig) -> tuple[Knob, ...]:
        """Return the knobs of a vector operator."""
        return vector_schedule.knobs(self.shape(), npu)

    def reduced(self, schedule: Schedule) -> Schedule:
        """Return the schedule of the same stream whose knobs without effect have fixed values."""
        return vector_schedule.canonical(self.shape(), schedule)

    def is_legal(self, schedule: Schedule, npu: NpuConfig) -> bool:
        """Return whether the kernel of a schedule fits `npu`."""
        return vector_schedule.is_legal(self.shape(), schedule, npu)

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel of a legal schedule."""
        shape, given, schedule = self.shape(), schedule, self.canonical(schedule, npu)
        if not self.is_legal(schedule, npu):
            raise illegal_schedule(self, given, npu)
        body = VectorKernel(shape, schedule, self.emit).body()
        constants = ("params",) if shape.params_bytes else ()
        inputs = tuple(f"in{index}" for index in range(len(shape.sources)))
        params = (*STANDARD_PARAMS, *inputs, "out0", *constants, *self.scalars())
        doc = f"{self.kind} {self.describe()}".strip()
        return Kernel(
            kernel_name(self, schedule), params, (Comment(schedule.describe()), *body), doc
        )

    def work(self, npu: NpuConfig) -> Work:
        """Return vector passes and compulsory bytes in bursts."""
        burst = npu.memory_of(0).burst
        sizes = [source.bytes_read for source in self.shape().sources]
        elements = math.prod(self.shape().extent)
        sizes.append(elements * self.shape().target.item)
        return Work(
            vector_elements=elements * self.passes,
            dram_bytes=sum(math.ceil(size / burst) * burst for size in sizes),
        )


def operand_fields(prefix: str, operand: Operand) -> dict[str, ExprLike]:
    """Return the scratchpad operand fields of a tile; broadcast axes get stride 0."""
    _, tile_w, tile_c = operand.tile
    item = operand.border.item
    return spm_fields(prefix, operand.address, tile_w * tile_c * item, tile_c * item)


def window_fields(operand: Operand, out: Operand, rows: Axis, cols: Axis) -> dict[str, ExprLike]:
    """Return the extents, window and padding fields of a pooling command."""
    return {
        "in_h": operand.box.rows.size, "in_w": operand.box.cols.size,
        "out_h": out.box.rows.size, "out_w": out.box.cols.size,
        "c": out.box.chans.size,
        "kh": rows.kernel, "kw": cols.kernel, "sh": rows.stride, "sw": cols.stride,
        "pad_top": operand.pad_top, "pad_left": operand.pad_left,
    }  # fmt: skip


def span_sizes(rows: Span, cols: Span, chans: Span) -> dict[str, ExprLike]:
    """Return the h, w and c fields."""
    return {"h": rows.size, "w": cols.size, "c": chans.size}
