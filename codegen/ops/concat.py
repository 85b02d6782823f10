"""Concatenation along rows, columns or channels, each input rescaled to the output's scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.borders import border_of, convert
from codegen.expr import ExprLike, param
from codegen.kernel import STANDARD_PARAMS, Comment, Instr, Kernel, Node, instr
from codegen.ops.base import Constraint, Operator, Work, kernel_name
from codegen.ops.convert import SCALARS, rescale_reference
from codegen.ops.vector import check_fits
from codegen.schedule import Schedule
from codegen.vector_kernel import VectorKernel, VectorShape, VectorStep, same_extent
from codegen.vector_schedule import schedules, spm_bytes
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig


def _types(operator: Operator, npu: NpuConfig) -> str | None:
    """Inputs and output must be integer types that the NPU has."""
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.dtype not in npu.capabilities.activation_types:
            return tensor.dtype
    return None


def _layout(operator: Operator, npu: NpuConfig) -> str | None:
    """Inputs and output must be NHWC."""
    del npu
    planar = [t.name for t in (*operator.inputs, *operator.outputs) if border_of(t).planar]
    return ", ".join(planar) or None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Concat(Operator):
    """y = concat(rescale(x0), rescale(x1), ...) along `axis` of (H, W, C).

    `values[i]` are the CONVERT scalars of input i, see `codegen.ops.convert.rescale_values`.
    """

    axis: int
    rounding: Rounding
    values: tuple[tuple[int, ...], ...]

    kind: ClassVar[str] = "concat"
    constraints: ClassVar[tuple[Constraint, ...]] = (_types, _layout)

    def shapes(self) -> list[VectorShape]:
        """Return one vector shape per input, placed within the output."""
        target, shapes, offset = border_of(self.outputs[0]), [], 0
        for tensor in self.inputs:
            own = tensor.hwc
            border = border_of(tensor)
            offsets = [0, 0, 0]
            offsets[self.axis] = offset
            shapes.append(VectorShape((same_extent(border, border),), target, own, 0, *offsets))
            offset += own[self.axis]
        return shapes

    def signature(self) -> tuple[object, ...]:
        """Return all shapes and the rounding."""
        return (self.kind, tuple(self.shapes()), int(self.rounding))

    def describe(self) -> str:
        """Return the axis."""
        return f"axis {'HWC'[self.axis]}"

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return schedules that fit every part."""
        return schedules(self.shapes(), 1, npu)

    def scalars(self) -> dict[str, int]:
        """Return each input's CONVERT scalars as `NAME_i`."""
        return {
            f"{name}_{index}": value
            for index, values in enumerate(self.values)
            for name, value in zip(SCALARS, values, strict=True)
        }

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel: one pipelined copy per input, a fence between them.

        The row range applies to every part but those of a concatenation along rows, which are
        always made whole.
        """
        check_fits(self, max(spm_bytes(s, schedule) for s in self.shapes()), schedule, npu)
        nodes: list[Node] = [Comment(schedule.describe())]
        for index in range(len(self.inputs)):
            if index:
                nodes.append(instr("FENCE"))
            nodes += self._part(index, schedule)
        inputs = tuple(f"in{index}" for index in range(len(self.inputs)))
        params = (*STANDARD_PARAMS, *inputs, "out0", *self.scalars())
        doc = f"{self.kind} {self.describe()}"
        return Kernel(kernel_name(self, schedule), params, tuple(nodes), doc)

    def _part(self, index: int, schedule: Schedule) -> tuple[Node, ...]:
        shape = self.shapes()[index]
        rows: tuple[ExprLike, ExprLike] | None = (0, shape.extent[0]) if self.axis == 0 else None

        def emit(step: VectorStep) -> Instr:
            source, target = step.inputs[0], step.output
            return convert(
                target.box,
                (source.border, source.address, source.tile),
                (target.border, target.address, target.tile),
                {name: param(f"{name}_{index}") for name in SCALARS},
                int(self.rounding), wait=step.wait, post=step.post,
            )  # fmt: skip

        return VectorKernel(shape, schedule, emit, rows, index).body()

    def work(self, npu: NpuConfig) -> Work:
        """Return one vector pass per element, and inputs and outputs in bursts."""
        burst = npu.memory_of(0).burst
        tensors = (*self.inputs, *self.outputs)
        return Work(
            vector_elements=self.outputs[0].elements,
            dram_bytes=sum(-(-tensor.nbytes // burst) * burst for tensor in tensors),
        )

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the rescaled inputs, joined."""
        target = self.outputs[0]
        parts = [
            rescale_reference(array.reshape(tensor.hwc), tensor, target, self.rounding, values)
            for array, tensor, values in zip(inputs, self.inputs, self.values, strict=True)
        ]
        return np.concatenate(parts, axis=self.axis).astype(target.dtype).reshape(target.shape)
