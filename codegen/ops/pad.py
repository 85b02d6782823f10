"""Padding by a constant on any side of rows, columns and channels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import border_of, convert, identity_scalars, tile_strides
from codegen.expr import Expr, ExprLike, as_expr, less, maximum, param
from codegen.kernel import Guard, Node, instr
from codegen.ops.base import Constraint, Operator, Work
from codegen.ops.constraints import channels_last, extents, integer_types, same_scale
from codegen.ops.draw import CaseSource
from codegen.ops.vector import VectorOperator, span_sizes
from codegen.tiles import Axis, Span
from codegen.vector_kernel import Source, Tile, VectorShape, VectorStep
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig


def _room(operator: Operator, npu: NpuConfig) -> str | None:
    """The input must fit into the result behind the padding, none of which is negative."""
    del npu
    assert isinstance(operator, Pad)
    size, out = operator.inputs[0].hwc, operator.outputs[0].hwc
    if all(b >= 0 and b + n <= m for b, n, m in zip(operator.before, size, out, strict=True)):
        return None
    return f"{size} behind {operator.before} in {out}"


def _value(operator: Operator, npu: NpuConfig) -> str | None:
    """The padding's value must be one of the element type."""
    del npu
    assert isinstance(operator, Pad)
    low, high = INTEGER_LIMITS.get(operator.inputs[0].dtype, (operator.value, operator.value))
    return None if low <= operator.value <= high else f"{operator.value} in {low}..{high}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pad(VectorOperator):
    """y = x with `value` around it: `before` counts (rows, columns, channels), the rest follows.

    `value` is a raw integer of the element type.
    """

    before: Tile
    value: int

    kind: ClassVar[str] = "pad"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, channels_last, extents, same_scale, _room, _value,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Pad:
        """Return a random padding; some axes have none, some more than the input has elements."""
        x = source.image()
        most = source.pick(1, 3, 24)
        before = [source.pick(0, 0, source.integer(0, most)) for _ in range(3)]
        shape = tuple(
            size + front + source.pick(0, front, source.integer(0, most))
            for size, front in zip(x.hwc, before, strict=True)
        )
        result = replace(source.tensor(shape, x.dtype), quant=x.quant)
        return cls(
            name=source.name(cls.kind), inputs=(x,), outputs=(result,),
            before=(before[0], before[1], before[2]),
            value=source.integer(*INTEGER_LIMITS[x.dtype]),
        )  # fmt: skip

    @property
    def passes(self) -> int:
        """Return vector passes per output element: one fills, one moves."""
        return 2

    def work(self, npu: NpuConfig) -> Work:
        """Return the elements that are filled and those that are moved, and bytes in bursts."""
        filled, moved = (math.prod(t.hwc) for t in (self.outputs[0], self.inputs[0]))
        return replace(VectorOperator.work(self, npu), vector_elements=filled + moved)

    def describe(self) -> str:
        """Return the padding before and after each axis, and the value."""
        sizes = zip(self.before, self.inputs[0].hwc, self.outputs[0].hwc, strict=True)
        sides = [f"{front}+{whole - size - front}" for front, size, whole in sizes]
        return f"{' '.join(sides)} of {self.value}"

    def axes_padded(self) -> tuple[Axis, Axis, Axis]:
        """Return rows, columns and channels as windows of one element over a padded axis."""
        sizes = zip(self.inputs[0].hwc, self.outputs[0].hwc, self.before, strict=True)
        rows, cols, chans = (Axis(size, out, pad=front) for size, out, front in sizes)
        return rows, cols, chans

    def shape(self) -> VectorShape:
        """Return what tiling depends on."""
        source = Source(border_of(self.inputs[0]), *self.axes_padded(), padded=True)
        return VectorShape((source,), border_of(self.outputs[0]), self.outputs[0].hwc)

    def scalars(self) -> dict[str, int]:
        """Return the value as a byte."""
        return {"value": self.value % 256}

    def emit(self, step: VectorStep) -> tuple[Node, ...]:
        """Return the FILL of the tile and, unless all of it is padding, the CONVERT within it."""
        source, target = step.inputs[0], step.output
        box, strides = target.box, tile_strides(target.border, target.tile)
        empty = _empty(self.axes_padded(), (box.rows, box.cols, box.chans))
        skipped = (source.pad_top, source.pad_left, source.pad_front)
        start = target.address
        for count, stride in zip(skipped, strides, strict=True):
            start = start + count * stride
        row, pixel, channel = strides
        fields: dict[str, ExprLike] = {
            "out_addr": target.address, "out_row_stride": row, "out_pixel_stride": pixel,
            "out_channel_stride": channel, "value": param("value"),
            **span_sizes(box.rows, box.cols, box.chans),
        }  # fmt: skip
        move = convert(
            source.box, (source.border, source.address, source.tile),
            (target.border, start, target.tile),
            identity_scalars(source.border.dtype), int(Rounding.SINGLE_UP), post=step.post,
        )  # fmt: skip
        whole = instr("FILL", wait=step.wait, post=step.post, **fields)
        around = instr("FILL", wait=step.wait, **fields)
        if empty.constant == 0:
            return around, move
        return Guard(empty, (whole,)), Guard(less(empty, 1), (around, move))

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the input with the value around it."""
        x, target = inputs[0].reshape(self.inputs[0].hwc), self.outputs[0]
        return reference.padded(x, self.before, target.hwc, self.value).reshape(target.shape)


def _empty(axes: tuple[Axis, Axis, Axis], spans: tuple[Span, Span, Span]) -> Expr:
    """Return 1 where a tile lies in the padding of some axis, else 0."""
    empty = as_expr(0)
    for axis, span in zip(axes, spans, strict=True):
        if axis.pad:
            empty = maximum(empty, less(span.start + span.size, axis.pad + 1))
        if axis.pad + axis.size < axis.out:
            empty = maximum(empty, less(axis.pad + axis.size - 1, span.start))
    return empty
