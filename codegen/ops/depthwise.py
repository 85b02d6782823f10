"""Depthwise convolution with a channel multiplier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen.conv_plan import ConvShape
from codegen.ops.base import Constraint, Operator
from codegen.ops.conv2d import Conv2D
from codegen.ops.window import CONSTRAINTS
from codegen.schedule import Schedule
from runtime_sim.npu import NpuConfig


def _unit(operator: Operator, npu: NpuConfig) -> str | None:
    """Depthwise convolution needs an NPU with a depthwise unit, and a multiplier up to 255."""
    assert isinstance(operator, DepthwiseConv2D)
    if not npu.capabilities.depthwise_unit:
        return f"{npu.name} without one"
    return f"multiplier {operator.multiplier}" if operator.multiplier > 255 else None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DepthwiseConv2D(Conv2D):
    """Output channel o convolves input channel o // multiplier; weight is [oc][kh][kw][1]."""

    kind: ClassVar[str] = "depthwise"
    constraints: ClassVar[tuple[Constraint, ...]] = (_unit, *CONSTRAINTS)

    @property
    def multiplier(self) -> int:
        """Return output channels per input channel."""
        return self.outputs[0].hwc[2] // self.inputs[0].hwc[2]

    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on."""
        return replace(Conv2D.shape(self), groups=1, mult=self.multiplier)

    def pack_weights(self, schedule: Schedule, npu: NpuConfig) -> NDArray[np.generic]:
        """Return the weights as channel tiles, each [kh][kw][channel]."""
        del npu
        tiles = range(0, len(self.weight), schedule.tile_oc)
        return np.concatenate(
            [
                self.weight[start : start + schedule.tile_oc, :, :, 0].transpose(1, 2, 0).reshape(-1)
                for start in tiles
            ]
        )

    def array_cycles(self, npu: NpuConfig) -> int:
        """Return the depthwise unit's cycles over all pixels, without fill and drain."""
        shape = self.shape()
        taps = shape.rows.out * shape.cols.out * shape.taps
        rate = npu.array_rows * npu.depthwise_rate
        return -(-shape.target.channels // npu.array_cols) * int(-(-taps // rate))

    def multiply_tap(self, patch: NDArray[np.int64], w: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return one tap's products, channel by channel."""
        return np.repeat(patch, self.multiplier, axis=2) * w[:, 0]
