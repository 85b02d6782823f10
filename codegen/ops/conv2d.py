"""2-D convolution with groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codegen.borders import border_of
from codegen.conv_plan import ConvShape
from codegen.ops.base import Constraint
from codegen.ops.window import CONSTRAINTS, WindowOperator
from codegen.tiles import Axis


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Conv2D(WindowOperator):
    """y = requantise(conv2d(x - zx, w - zw) + bias); pads are (top, left), the rest follows."""

    strides: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    kind: ClassVar[str] = "conv2d"
    constraints: ClassVar[tuple[Constraint, ...]] = CONSTRAINTS

    def shape(self) -> ConvShape:
        """Return what the kernel's code depends on."""
        source, target = border_of(self.inputs[0]), border_of(self.outputs[0])
        _, kernel_h, kernel_w, _ = self.weight.shape
        (sh, sw), (top, left), (dh, dw) = self.strides, self.padding, self.dilation
        return ConvShape(
            source=source,
            target=target,
            rows=Axis(source.height, target.height, kernel_h, sh, dh, top),
            cols=Axis(source.width, target.width, kernel_w, sw, dw, left),
            groups=self.groups,
            mult=0,
            a_type=self.a_type,
            w_type=self.weight.dtype.name,
            out_type=self.requant.dtype,
            vector_zero_points=len(np.unique(self.weight_zero_point)) > 1,
            rounding=int(self.requant.scaling.rounding),
        )
