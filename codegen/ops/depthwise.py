"""Depthwise convolution with a channel multiplier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import reference
from codegen.conv_plan import ConvShape
from codegen.ops.base import Constraint, Operator
from codegen.ops.constraints import WINDOW_MAX
from codegen.ops.conv2d import Conv2D
from codegen.ops.draw import CaseSource
from codegen.ops.window import calibrated, draw_weights, draw_window
from codegen.ops.window_constraints import CONSTRAINTS
from codegen.reference import Slide
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig


def _unit(operator: Operator, npu: NpuConfig) -> str | None:
    """Depthwise convolution needs an NPU with a depthwise unit."""
    del operator
    return None if npu.capabilities.depthwise_unit else f"{npu.name} without one"


def _multiplier(operator: Operator, npu: NpuConfig) -> str | None:
    """Output channels must be 1..255 times the input channels."""
    del npu
    inputs, outputs = operator.inputs[0].hwc[2], operator.outputs[0].hwc[2]
    fits = outputs % inputs == 0 and 1 <= outputs // inputs <= WINDOW_MAX
    return None if fits else f"{inputs} to {outputs}"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DepthwiseConv2D(Conv2D):
    """Output channel o convolves input channel o // multiplier; weight is [oc][kh][kw][1]."""

    kind: ClassVar[str] = "depthwise"
    constraints: ClassVar[tuple[Constraint, ...]] = (_unit, _multiplier, *CONSTRAINTS)

    @classmethod
    def draw(cls, source: CaseSource) -> DepthwiseConv2D:
        """Return a random depthwise convolution with a multiplier from 1 to 4."""
        x = source.image()
        window = draw_window(source, x, (1, 2, 3, 3, 3, 5, 7))
        rows, cols = window.pop("axes")
        channels = x.hwc[2] * source.pick(1, 1, 2, 3, 4)
        weight = (channels, rows.kernel, cols.kernel, 1)
        fields = draw_weights(source, x, weight, (rows.out, cols.out, channels))
        return calibrated(source, cls(name=source.name(cls.kind), **window, **fields))

    @property
    def multiplier(self) -> int:
        """Return output channels per input channel."""
        return self.outputs[0].hwc[2] // self.inputs[0].hwc[2]

    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on."""
        return replace(Conv2D.shape(self), groups=1, mult=self.multiplier)

    def sums(
        self, x: NDArray[np.int64], w: NDArray[np.int64], rows: Slide, cols: Slide
    ) -> NDArray[np.int64]:
        """Return the reference's sums."""
        return reference.depthwise(x, w, rows, cols)

    def pack_weights(self, schedule: Schedule, npu: NpuConfig) -> NDArray[np.generic]:
        """Return the weights as channel tiles, each [kh][kw][channel]."""
        del npu
        weight, tile = self.weight[..., 0], schedule.tile_oc
        starts = range(0, len(weight), tile)
        pieces = [weight[first : first + tile].transpose(1, 2, 0).reshape(-1) for first in starts]
        return np.concatenate(pieces)

    def array_cycles(self, npu: NpuConfig) -> int:
        """Return the depthwise unit's cycles over all pixels, without fill and drain."""
        shape = self.shape()
        taps = shape.rows.out * shape.cols.out * shape.taps
        rate = npu.array_rows * npu.depthwise_rate
        return -(-shape.target.channels // npu.array_cols) * int(-(-taps // rate))
