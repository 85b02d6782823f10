"""2-D convolution with groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.conv_plan import ConvShape
from codegen.ops.base import Constraint
from codegen.ops.draw import CaseSource
from codegen.ops.window import (
    WindowOperator,
    calibrated,
    draw_weights,
    draw_window,
)
from codegen.ops.window_constraints import CONSTRAINTS
from codegen.reference import Slide
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Conv2D(WindowOperator):
    """y = requantise(conv2d(x - zx, w - zw) + bias); pads are (top, left), the rest follows."""

    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    kind: ClassVar[str] = "conv2d"
    constraints: ClassVar[tuple[Constraint, ...]] = CONSTRAINTS

    @classmethod
    def draw(cls, source: CaseSource) -> Conv2D:
        """Return a random convolution: any kernel up to 7x7, groups, borders and zero points."""
        groups = source.pick(1, 1, 1, 2, 3, 4, 5)
        if source.given:
            groups = source.pick(1, source.given[0].hwc[2])
        channels = source.pick(1, 2, 3, 8, 9) * groups if groups > 1 else source.channels()
        x = source.image(channels=channels)
        window = draw_window(source, x, (1, 1, 2, 3, 3, 3, 4, 5, 6, 7))
        rows, cols = window.pop("axes")
        out_c = source.pick(1, 2, 3, 5) * groups if groups > 1 else source.channels()
        weight = (out_c, rows.kernel, cols.kernel, x.hwc[2] // groups)
        fields = draw_weights(source, x, weight, (rows.out, cols.out, out_c))
        draft = cls(name=source.name(cls.kind), groups=groups, **window, **fields)
        return calibrated(source, draft)

    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on."""
        return self.sliding(self.strides, self.padding, self.dilation, self.groups)

    def sums(
        self, x: NDArray[np.int64], w: NDArray[np.int64], rows: Slide, cols: Slide
    ) -> NDArray[np.int64]:
        """Return the reference's sums."""
        return reference.convolve(x, w, rows, cols, self.groups)

    def array_cycles(self, npu: NpuConfig) -> int:
        """Return the array's passes with the better operand in it, without fill and drain."""
        shape = self.shape()
        pixels, channels = shape.rows.out * shape.cols.out, shape.group_out
        passes = least_passes = shape.taps * -(-shape.group_in // npu.array_rows)
        if shape.packs_taps(npu.array_rows):
            least_passes = -(-shape.depth // npu.array_rows)
        of_weights = least_passes * -(-channels // npu.array_cols) * max(pixels, npu.array_rows)
        of_pixels = passes * -(-pixels // npu.array_cols) * max(channels, npu.array_rows)
        return shape.groups * min(of_weights, of_pixels)

    def pack_weights(self, schedule: Schedule, npu: NpuConfig) -> NDArray[np.generic]:
        """Return the weights in the order the array reads them, one piece per (channel, depth)."""
        shape, pieces = self.shape(), []
        for group in range(shape.groups):
            for start in range(0, shape.group_out, schedule.tile_oc):
                first = group * shape.group_out + start
                stop = first + min(schedule.tile_oc, shape.group_out - start)
                for depth in range(0, shape.group_in, schedule.tile_ic):
                    tile = self.weight[first:stop, :, :, depth : depth + schedule.tile_ic]
                    pieces += _column_blocks(tile, npu.array_cols)
        return np.concatenate(pieces)


def _column_blocks(tile: NDArray[np.generic], columns: int) -> list[NDArray[np.generic]]:
    """Return a weight tile as blocks of array columns, each [kh][kw][ic][block]."""
    return [
        np.ascontiguousarray(tile[start : start + columns].transpose(1, 2, 3, 0)).reshape(-1)
        for start in range(0, len(tile), columns)
    ]
