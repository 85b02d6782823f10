"""Look-up: any function of one 8-bit value, as a table of its 256 results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.borders import border_of
from codegen.kernel import Instr, instr
from codegen.ops.base import Arrays, Constraint, Operator
from codegen.ops.constraints import channels_last, extents, integer_types, same_shape
from codegen.ops.draw import CaseSource
from codegen.ops.vector import VectorOperator, operand_fields, span_sizes
from codegen.quantization import nhwc_of
from codegen.schedule import Schedule
from codegen.vector_kernel import VectorShape, VectorStep, same_extent
from runtime_sim.isa.fields import LUT_ENTRIES
from runtime_sim.npu import NpuConfig


def _look_up_unit(operator: Operator, npu: NpuConfig) -> str | None:
    """Looking up needs an NPU with a look-up unit."""
    del operator
    return None if npu.capabilities.lut_unit else f"{npu.name} without one"


def _table(operator: Operator, npu: NpuConfig) -> str | None:
    """A table must have 256 entries of the result's type."""
    del npu
    assert isinstance(operator, Lut)
    table, wanted = operator.table, operator.outputs[0].dtype
    fits = table.shape == (LUT_ENTRIES,) and table.dtype.name == wanted
    return None if fits else f"{table.size} of {table.dtype.name}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Lut(VectorOperator):
    """y = table[x]: entry i is the result for the input whose byte is i (int8 -1 is byte 255).

    `function` names what the table holds.
    """

    table: NDArray[np.generic]
    function: str = ""

    kind: ClassVar[str] = "lut"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, same_shape, channels_last, extents, _table, _look_up_unit,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Lut:
        """Return a random table between any two types."""
        x = source.image()
        y = source.tensor(x.shape[1:])
        table = source.integers((LUT_ENTRIES,), y.dtype)
        return cls(name=source.name(cls.kind), inputs=(x,), outputs=(y,), table=table)

    def describe(self) -> str:
        """Return the function's name."""
        return self.function

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        target = border_of(self.outputs[0])
        source = same_extent(border_of(self.inputs[0]), target)
        return VectorShape((source,), target, self.outputs[0].hwc, params_bytes=LUT_ENTRIES)

    def constants(self, schedule: Schedule, npu: NpuConfig) -> Arrays:
        """Return the table."""
        del schedule, npu
        return {"params": self.table}

    def emit(self, step: VectorStep) -> Instr:
        """Return the LUT of a step."""
        source, out = step.inputs[0], step.output
        return instr(
            "LUT", wait=step.wait, post=step.post, table_addr=step.params,
            **span_sizes(out.box.rows, out.box.cols, out.box.chans),
            **operand_fields("in", source), **operand_fields("out", out),
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the entry of each element."""
        source, target = self.inputs[0], self.outputs[0]
        return reference.look_up(nhwc_of(inputs[0], source), self.table).reshape(target.shape)
