"""Moves within the NPU: strided slices, and permutations of the axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.borders import DTYPE_CODE, border_of, identity_scalars, tile_strides
from codegen.graph import Tensor
from codegen.kernel import Instr, instr
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import channels_last, extents, integer_types, same_scale
from codegen.ops.draw import CaseSource
from codegen.ops.vector import VectorOperator, span_sizes
from codegen.tiles import Axis
from codegen.vector_kernel import Source, Tile, VectorShape, VectorStep
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig

_STRIDES = ("row", "pixel", "channel")


def _inside(operator: Operator, npu: NpuConfig) -> str | None:
    """The result's axes must be the input's in some order, and all that they read must lie in the
    input: begin >= 0, step >= 1, begin + (count - 1) * step < size."""
    del npu
    assert isinstance(operator, Move)
    if sorted(operator.axes_from) != [0, 1, 2]:
        return f"axes {operator.axes_from}"
    sizes = operator.inputs[0].hwc
    for size, begin, step, count in zip(sizes, operator.begin, operator.steps, operator.counts):
        if begin < 0 or step < 1 or begin + (count - 1) * step >= size:
            return f"{count} of {size} from {begin} in steps of {step}"
    return None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Move(VectorOperator):
    """y = transpose(x[begin::step], axes), elements unchanged; how many is the result's extent.

    `begin` and `steps` are those of the input's (rows, columns, channels). Axis k of the result is
    axis `axes_from[k]` of the input. A split is one such slice for each part.
    """

    begin: Tile = (0, 0, 0)
    steps: Tile = (1, 1, 1)
    axes_from: Tile = (0, 1, 2)

    kind: ClassVar[str] = "move"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, channels_last, extents, same_scale, _inside,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Move:
        """Return a random slice, transposition or both."""
        x = source.image()
        begin, steps, counts = [0, 0, 0], [1, 1, 1], list(x.hwc)
        sliced = source.chance(0.7)
        for axis, size in enumerate(x.hwc):
            if sliced and source.chance(0.6):
                steps[axis] = source.pick(1, 1, 2, 3, 5)
                begin[axis] = source.integer(0, size - 1)
                most = (size - 1 - begin[axis]) // steps[axis] + 1
                counts[axis] = source.pick(most, source.integer(1, most))
        axes = (0, 1, 2)
        if not sliced or source.chance(0.3):
            axes = source.pick((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        shape = tuple(counts[axis] for axis in axes)
        result = replace(source.tensor(shape, x.dtype), quant=x.quant)
        return cls(
            name=source.name(cls.kind), inputs=(x,), outputs=(result,),
            begin=_three(begin), steps=_three(steps), axes_from=axes,
        )  # fmt: skip

    @property
    def counts(self) -> Tile:
        """Return how many elements the result has along each axis of the input."""
        return _three([self.outputs[0].hwc[self.axes_from.index(axis)] for axis in range(3)])

    @property
    def attributes(self) -> tuple[object, ...]:
        """Return the order of the axes."""
        return (self.axes_from,)

    def describe(self) -> str:
        """Return begin, steps and axes where they are not the whole in order."""
        text = "" if self.counts == self.inputs[0].hwc else f"from {self.begin} by {self.steps}"
        order = "".join("HWC"[axis] for axis in self.axes_from)
        return text if order == "HWC" else f"{text} to {order}".strip()

    def shape(self) -> VectorShape:
        """Return what tiling depends on: the elements that are read, in their steps."""
        border, (rows, cols, chans) = border_of(self.inputs[0]), self.counts
        source = Source(
            replace(border, step=self.steps[:2]),
            Axis(rows, rows),
            Axis(cols, cols),
            Axis((chans - 1) * self.steps[2] + 1, chans, 1, self.steps[2]),
            _three([self.axes_from.index(axis) for axis in range(3)]),
            begin="begin",
        )
        return VectorShape((source,), border_of(self.outputs[0]), self.outputs[0].hwc)

    def scalars(self) -> dict[str, int]:
        """Return the bytes before the first element that is read."""
        _, width, channels = self.inputs[0].hwc
        row, col, channel = self.begin
        return {"begin": (row * width + col) * channels + channel}

    def emit(self, step: VectorStep) -> Instr:
        """Return the CONVERT of a step: the axes' order is that of its input strides."""
        source, target = step.inputs[0], step.output
        row, pixel, channel = tile_strides(source.border, source.tile)
        inner = (row, pixel, channel * self.steps[2])
        strides = {f"in_{name}_stride": inner[axis] for name, axis in zip(_STRIDES, self.axes_from)}
        outer = tile_strides(target.border, target.tile)
        strides |= {f"out_{name}_stride": stride for name, stride in zip(_STRIDES, outer)}
        dtype, box = source.border.dtype, target.box
        return instr(
            "CONVERT", wait=step.wait, post=step.post,
            **span_sizes(box.rows, box.cols, box.chans),
            in_addr=source.address, in_type=DTYPE_CODE[dtype],
            out_addr=target.address, out_type=DTYPE_CODE[dtype], **strides,
            rounding=int(Rounding.SINGLE_UP), **identity_scalars(dtype),
        )  # fmt: skip

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the elements that are read, in the result's order of axes."""
        x = inputs[0].reshape(self.inputs[0].hwc)
        taken = reference.strided(x, self.begin, self.steps, self.counts)
        return reference.permuted(taken, self.axes_from).reshape(self.outputs[0].shape)


def _three(values: list[int]) -> Tile:
    return values[0], values[1], values[2]


def transpose(
    name: str, source: Tensor, target: Tensor, axes: Tile, names: tuple[str, ...] = ()
) -> Move:
    """Return the move whose axis k is axis `axes[k]` of the source."""
    return Move(name=name, inputs=(source,), outputs=(target,), source_names=names, axes_from=axes)
