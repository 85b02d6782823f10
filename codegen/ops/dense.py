"""Dense (fully connected) layers, also over several rows: (1, M, K) x (K, N)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codegen.ops.conv2d import Conv2D


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dense(Conv2D):
    """y = requantise((x - zx) @ (w - zw) + bias): a 1x1 convolution over the rows of x."""

    kind: ClassVar[str] = "dense"

    def describe(self) -> str:
        """Return K -> N."""
        return f"{self.inputs[0].hwc[2]} -> {self.outputs[0].hwc[2]}"
