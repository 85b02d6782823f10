"""Transposed 2-D convolution with groups, as one ordinary convolution per output phase.

With strides (sh, sw), the results at rows py, py + sh, ... and columns px, px + sw, ... all see the
same taps of the kernel, so each of the sh * sw phases is an ordinary convolution of stride 1 with
those taps, mirrored, that stores to every sh-th row and sw-th column. No zeros are inserted and
none multiplied, but for phases that no tap reaches and taps that keep a window inside the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import border_of
from codegen.conv_plan import ConvShape
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import (
    WINDOW_MAX,
    channels_last,
    integer_types,
    padding_sizes,
)
from codegen.ops.conv2d import Conv2D
from codegen.ops.depthwise import DepthwiseConv2D
from codegen.ops.draw import CaseSource
from codegen.ops.made_of_parts import MadeOfParts
from codegen.ops.window import WindowOperator, calibrated, draw_weights
from codegen.ops.window_constraints import CONSTRAINTS
from codegen.reference import Slide
from codegen.schedule import Schedule
from codegen.tiles import Axis
from runtime_sim.npu import NpuConfig


def _padding(operator: Operator, npu: NpuConfig) -> str | None:
    """Padding must be 0..255, and the result at most a stride longer than the kernel reaches."""
    del npu
    assert isinstance(operator, ConvTranspose2D)
    for axis in operator.axes():
        longest = (axis.size - 1) * axis.stride + axis.reach + axis.stride - 1 - axis.pad
        if not 0 <= axis.pad <= WINDOW_MAX or axis.out > longest:
            return f"padding {axis.pad}, result {axis.out} of {longest}"
    return None


def _empty_taps(operator: Operator, npu: NpuConfig) -> str | None:
    """Weight zero points must be values of the weight type."""
    del npu
    assert isinstance(operator, ConvTranspose2D)
    low, high = INTEGER_LIMITS[operator.weight.dtype.name]
    values = operator.weight_zero_point
    outside = values[(values < low) | (values > high)]
    return f"zero point {int(outside[0])}" if len(outside) else None


@dataclass(frozen=True, slots=True)
class Phase:
    """The results start, start + step, ... of one axis: `taps` of the kernel, in input order.

    A tap is an index into the kernel, or -1 for one that adds nothing. `pad` is what an ordinary
    convolution with these taps has before the input; below 0 it skips elements.
    """

    start: int
    step: int
    out: int
    taps: tuple[int, ...]
    pad: int


def phases(axis: Axis) -> tuple[Phase, ...]:
    """Return the phases of an axis that have results: y[i * stride + tap - pad] += x[i] w[tap]."""
    found = []
    for start in range(min(axis.stride, axis.out)):
        out = -(-(axis.out - start) // axis.stride)
        first, base = (start + axis.pad) % axis.stride, (start + axis.pad) // axis.stride
        taps = tuple(range(first, axis.kernel, axis.stride))[::-1] or (-1,)
        pad = len(taps) - 1 - base
        outside = max(0, out - pad - axis.size)  # how far the last window begins past the input
        taps, pad = (-1,) * outside + taps, pad + outside
        found.append(Phase(start, axis.stride, out, taps, pad))
    return tuple(found)


class _PhaseOperator(Conv2D):
    """A convolution that makes one phase of the result; `place`: its rows and columns."""

    __slots__ = ()

    place: tuple[Phase, Phase]

    @property
    def rows(self) -> int:
        """Return how many rows the kernel makes."""
        return self.place[0].out

    @property
    def fills(self) -> tuple[slice, slice, slice]:
        """Return the phase's rows and columns."""
        rows, cols = (
            slice(p.start, p.start + (p.out - 1) * p.step + 1, p.step) for p in self.place
        )
        return rows, cols, slice(None)

    @property
    def output_offset(self) -> int:
        """Return where in the result its first element lies, in bytes."""
        border, (rows, cols) = border_of(self.outputs[0]), self.place
        return rows.start * border.row_pitch + cols.start * border.pixel_pitch

    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on: its rows and columns of the result only."""
        shape, (rows, cols) = super().shape(), self.place
        return replace(
            shape,
            target=replace(border_of(self.outputs[0]), step=(rows.step, cols.step)),
            rows=replace(shape.rows, out=rows.out),
            cols=replace(shape.cols, out=cols.out),
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConvPhase(_PhaseOperator):
    """A phase of a transposed convolution."""

    place: tuple[Phase, Phase]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DepthwisePhase(_PhaseOperator, DepthwiseConv2D):
    """A phase of a transposed depthwise convolution."""

    place: tuple[Phase, Phase]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConvTranspose2D(MadeOfParts, WindowOperator):
    """y = requantise(conv2d_transpose(x - zx, w - zw) + bias); pads are (top, left).

    What padding below and right and output padding make is in the result's extent. `depthwise`:
    each input channel has its own filters, and the depthwise unit makes them.
    """

    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    groups: int = 1
    depthwise: bool = False

    kind: ClassVar[str] = "conv2d_transpose"
    noun: ClassVar[str] = "a transposed convolution"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, channels_last, _padding, _empty_taps,
        *(rule for rule in CONSTRAINTS if rule is not padding_sizes),
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> ConvTranspose2D:
        """Return a random transposed convolution: strides up to 3, groups, any padding."""
        depthwise = source.chance(0.2)
        groups = source.pick(1, 1, 1, 2, 3)
        x = source.image(8, 8, source.pick(1, 2, 3, 8, 9) * groups)
        channels = x.hwc[2]
        groups = channels if depthwise else groups if channels % groups == 0 else 1
        axes = [_draw_axis(source, size) for size in x.hwc[:2]]
        out_c = source.pick(1, 2, 3, 7) * groups
        weight = (out_c, axes[0].kernel, axes[1].kernel, channels // groups)
        source = replace(source, border_in=False, border_out=False)
        fields = draw_weights(source, x, weight, (axes[0].out, axes[1].out, out_c))
        draft = cls(
            name=source.name(cls.kind), groups=groups, depthwise=depthwise,
            strides=(axes[0].stride, axes[1].stride), padding=(axes[0].pad, axes[1].pad), **fields,
        )  # fmt: skip
        return calibrated(source, draft)

    def shape(self) -> ConvShape:
        """Return the whole operator's shape; its parts have those that kernels depend on."""
        return self.sliding(self.strides, self.padding, (1, 1), self.groups)

    def parts(self) -> tuple[Operator, ...]:
        """Return the convolution of each phase."""
        rows, cols = self.axes()
        pairs = [(row, col) for row in phases(rows) for col in phases(cols)]
        return tuple(self._part(index, pair) for index, pair in enumerate(pairs))

    def _part(self, index: int, place: tuple[Phase, Phase]) -> Operator:
        fields: dict[str, Any] = {
            "name": f"{self.name}.{index}", "inputs": self.inputs, "outputs": self.outputs,
            "source_names": self.source_names, "bias": self.bias, "requant": self.requant,
            "in_zero_point": self.in_zero_point, "weight_zero_point": self.weight_zero_point,
            "a_type": self.a_type, "padding": (place[0].pad, place[1].pad),
            "weight": self._taps(place), "place": place,
        }  # fmt: skip
        if self.depthwise:
            return DepthwisePhase(**fields)
        return ConvPhase(groups=self.groups, **fields)

    def _taps(self, place: tuple[Phase, Phase]) -> NDArray[np.generic]:
        """Return the kernel's taps of a phase; those that add nothing hold the zero points."""
        rows, cols = (np.array(phase.taps) for phase in place)
        weight = self.weight[:, rows][:, :, cols]
        zero_points = np.broadcast_to(self.weight_zero_point, (len(self.bias),))
        empty = (rows < 0)[:, None] | (cols < 0)
        filled = np.where(empty[None, :, :, None], zero_points[:, None, None, None], weight)
        return filled.astype(self.weight.dtype)

    def pack_weights(self, schedule: Schedule, npu: NpuConfig) -> NDArray[np.generic]:
        """Return all weights as they are; each part packs its own."""
        del schedule, npu
        return self.weight

    def array_cycles(self, npu: NpuConfig) -> int:
        """Return the sum of the parts' array cycles."""
        return sum(part.work(npu).matrix_cycles for part in self.parts())

    def sums(
        self, x: NDArray[np.int64], w: NDArray[np.int64], rows: Slide, cols: Slide
    ) -> NDArray[np.int64]:
        """Return the reference's sums."""
        return reference.convolve_transposed(x, w, rows, cols, self.groups)


def _draw_axis(source: CaseSource, size: int) -> Axis:
    """Return an axis with padding at both ends and output padding."""
    kernel, stride = source.pick(1, 2, 2, 3, 3, 4, 5), source.pick(1, 2, 2, 2, 3, 4)
    before, after = (source.pick(0, 0, source.integer(0, kernel)) for _ in range(2))
    out = (size - 1) * stride + kernel + source.integer(0, stride - 1) - before - after
    if out < 1:
        return _draw_axis(source, size)
    return Axis(size, out, kernel, stride, 1, before)
