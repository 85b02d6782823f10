"""Dense (fully connected) layers, also over several rows: (1, M, K) x (K, N)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codegen.ops.conv2d import Conv2D
from codegen.ops.draw import CaseSource
from codegen.ops.window import calibrated, draw_weights


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dense(Conv2D):
    """y = requantise((x - zx) @ (w - zw) + bias): a 1x1 convolution over the rows of x."""

    kind: ClassVar[str] = "dense"

    @classmethod
    def draw(cls, source: CaseSource) -> Dense:
        """Return a random dense layer on one row or several."""
        inner, outer = (source.pick(1, 3, 10, 16, 40, 100, 130, 257) for _ in range(2))
        rows = () if source.chance(0.5) else (source.integer(1, 40),)
        x = source.given[0] if source.given else source.tensor((*rows, inner))
        shape = (*x.shape[1:-1], outer)
        weight = (outer, 1, 1, x.shape[-1])
        fields = draw_weights(source, x, weight, shape)
        return calibrated(source, cls(name=source.name(cls.kind), **fields))

    def describe(self) -> str:
        """Return K -> N."""
        return f"{self.inputs[0].hwc[2]} -> {self.outputs[0].hwc[2]}"
