"""Concatenation along rows, columns or channels, each input rescaled to the output's scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import (
    channels_last,
    extents,
    integer_types,
    rounding_available,
    rounding_defined,
)
from codegen.ops.convert import Convert, rescale_reference, rescale_values
from codegen.ops.draw import CONVERTIBLE_MODES, CaseSource
from codegen.ops.made_of_parts import MadeOfParts
from codegen.quantization import real_scale
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig


def _shapes(operator: Operator, npu: NpuConfig) -> str | None:
    """Inputs must agree with the output in all axes but that of the concatenation, and fill it."""
    del npu
    assert isinstance(operator, Concat)
    shapes = [tensor.hwc for tensor in operator.inputs]
    total = sum(shape[operator.axis] for shape in shapes)
    for shape in shapes:
        whole = [*shape]
        whole[operator.axis] = total
        if tuple(whole) != operator.outputs[0].hwc:
            return f"{shape} in {operator.outputs[0].hwc} along axis {operator.axis}"
    return None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Concat(MadeOfParts):
    """y = concat(rescale(x0), rescale(x1), ...) along `axis` of (H, W, C).

    `values[i]` are the CONVERT scalars of input i, see `codegen.ops.convert.rescale_values`.
    """

    axis: int
    rounding: Rounding
    values: tuple[tuple[int, ...], ...]

    kind: ClassVar[str] = "concat"
    noun: ClassVar[str] = "a concatenation"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, channels_last, extents, _shapes, rounding_defined, rounding_available,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Concat:
        """Return a random concatenation of up to four tensors along any axis."""
        first, axis = source.image(rows=10, cols=10), source.integer(0, 2)
        if len(first.shape) != 4:
            axis = 2
        inputs, sizes = [first], list(first.hwc)
        for _ in range(source.integer(0, 3)):
            shape = list(first.hwc)
            shape[axis] = source.pick(shape[axis], source.integer(1, 9))
            inputs.append(source.input(tuple(shape[4 - len(first.shape) :]), real_scale(first)))
            sizes[axis] += shape[axis]
        result = source.tensor(tuple(sizes[4 - len(first.shape) :]), None, real_scale(first))
        profile = source.profile(CONVERTIBLE_MODES)
        return cls(
            name=source.name(cls.kind), inputs=tuple(inputs), outputs=(result,), axis=axis,
            rounding=profile.rounding,
            values=tuple(rescale_values(x, result, profile) for x in inputs),
        )  # fmt: skip

    @property
    def rounding_mode(self) -> Rounding:
        """Return the rounding mode."""
        return self.rounding

    def parts(self) -> tuple[Operator, ...]:
        """Return the rescaling of each input into its place."""
        parts, place = [], [0, 0, 0]
        for index, (tensor, values) in enumerate(zip(self.inputs, self.values, strict=True)):
            part = Convert(
                name=f"{self.name}.{index}", inputs=(tensor,), outputs=self.outputs,
                source_names=self.source_names, mode="rescale", rounding=self.rounding,
                values=values, place=(place[0], place[1], place[2]),
            )  # fmt: skip
            parts.append(part)
            place[self.axis] += tensor.hwc[self.axis]
        return tuple(parts)

    def describe(self) -> str:
        """Return the axis."""
        return f"axis {'HWC'[self.axis]}"

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the rescaled inputs, joined."""
        target = self.outputs[0]
        parts = [
            rescale_reference(array.reshape(tensor.hwc), tensor, target, self.rounding, values)
            for array, tensor, values in zip(inputs, self.inputs, self.values, strict=True)
        ]
        return np.concatenate(parts, axis=self.axis).astype(target.dtype).reshape(target.shape)
