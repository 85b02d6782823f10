"""Random operator cases: what the operators' `draw` methods take their dice from.

Every draw comes from one seeded generator, so a case is named by its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codegen.borders import INTEGER_LIMITS
from codegen.graph import QuantParams, Tensor
from codegen.profiles import Profile, Scaling, scaling
from codegen.quantization import Requant
from codegen.tiles import Axis
from runtime_sim.isa.fields import Rounding

T = TypeVar("T")
INTEGERS = ("int8", "uint8")
CONVERTIBLE_MODES = tuple(mode for mode in Rounding if mode != Rounding.HALF_AWAY_F64)
"""The rounding modes that ELTWISE and integer CONVERT have."""


@dataclass(frozen=True, slots=True)
class CaseSource:
    """Draws the parts of an operator.

    `given`: tensors that the operator may read, the first one as its first input. `border_in` and
    `border_out`: whether inputs and outputs may have border forms (float32, planes).
    """

    random: np.random.Generator
    given: Sequence[Tensor] = ()
    border_in: bool = True
    border_out: bool = True
    names: list[str] = field(default_factory=list)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.random.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def real(self, low: float, high: float) -> float:
        """Return a float32 value between low and high, drawn on a logarithmic scale."""
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def pick(self, *options: T) -> T:
        """Return one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def name(self, kind: str) -> str:
        """Return a new name."""
        self.names.append(f"{kind}{len(self.names)}")
        return self.names[-1]

    def channels(self) -> int:
        """Return a number of channels: few, odd, or around array sizes."""
        return self.pick(1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 24, 32, 33, 40, 64, 70)

    def quant(self, dtype: str, near: float | None = None) -> QuantParams:
        """Return quantisation parameters for an integer type, mostly with a scale `near` one."""
        low, high = INTEGER_LIMITS[dtype]
        middle = (low + high + 1) // 2
        zero_point = self.integer(middle - 30, middle + 30)
        if self.chance(0.3):
            zero_point = self.pick(middle, low, high, self.integer(low, high))
        scale = self.pick(2.0 ** self.integer(-9, 0), self.real(0.001, 1.5))
        if near is not None and self.chance(0.9):
            scale = self.real(near * 0.4, near * 2)
        return QuantParams(scale, zero_point)

    def tensor(
        self, shape: tuple[int, ...], dtype: str | None = None, near: float | None = None
    ) -> Tensor:
        """Return an integer tensor of a shape without its leading 1; `near`: see `quant`."""
        chosen = dtype or self.pick(*INTEGERS)
        return Tensor(self.name("t"), (1, *shape), chosen, self.quant(chosen, near))

    def input(self, shape: tuple[int, ...], near: float) -> Tensor:
        """Return a tensor to read: a given one of that shape, or a new one."""
        for tensor in self.given[1:]:
            fits = tensor.shape == (1, *shape) and tensor.dtype in INTEGERS
            if fits and tensor.layout == "NHWC" and self.chance(0.7):
                return tensor
        return self.tensor(shape, None, near)

    def image(self, rows: int = 20, cols: int = 20, channels: int | None = None) -> Tensor:
        """Return the first input: the first given tensor, or a new (H, W, C) one."""
        if self.given:
            return self.given[0]
        shape = (self.integer(1, rows), self.integer(1, cols), channels or self.channels())
        return self.tensor(shape)

    def border(self, tensor: Tensor, allowed: bool) -> Tensor:
        """Return an integer tensor, or by chance its border form: float32, planes or both."""
        if not allowed or any(tensor is known for known in self.given) or self.chance(0.5):
            return tensor
        layout = self.pick("NHWC", "NCHW") if len(tensor.shape) == 4 else "NHWC"
        return replace(tensor, dtype=self.pick("float32", tensor.dtype), layout=layout)

    def profile(self, modes: Sequence[Rounding] = tuple(Rounding)) -> Profile:
        """Return a profile of any rounding mode, not only those that have a name."""
        return Profile("drawn", self.pick(*modes), self.chance(0.5), self.chance(0.5), "a case")

    def clamp(self, dtype: str) -> tuple[int, int]:
        """Return integer limits: mostly those of the type."""
        low, high = INTEGER_LIMITS[dtype]
        if self.chance(0.6):
            return low, high
        middle = (low + high) // 2
        return self.integer(low, middle), self.integer(middle, high)

    def requant(self, spread: NDArray[np.float64], quant: QuantParams, dtype: str) -> Requant:
        """Return a requantisation of accumulators that spread by about `spread` per channel."""
        if self.chance(0.2):
            spread = spread.max(keepdims=True)
        real = self.random.uniform(0.5, 2, len(spread)) * 40 / np.maximum(spread, 1)
        if self.chance(0.1):
            real = real * 2.0 ** self.integer(-10, 10)
        return Requant(self.scaling(real), quant.zero_point, *self.clamp(dtype), dtype)

    def scaling(self, real: NDArray[np.float64]) -> Scaling:
        """Return a scaling in any rounding mode; some scales are zero."""
        if self.chance(0.1):
            real = np.where(self.random.random(len(real)) < 0.2, 0.0, real)
        return scaling(self.pick(*Rounding), real)

    def axis(self, size: int, kernels: Sequence[int], dilations: Sequence[int] = (1,)) -> Axis:
        """Return a window axis over `size` elements with some padding at both ends.

        The output may stop short of the last window that would fit.
        """
        axis = Axis(size, 1, self.pick(*kernels), self.pick(1, 1, 2, 3), self.pick(*dilations))
        most = axis.reach - 1
        before = self.pick(0, 0, most // 2, self.integer(0, most))
        after = self.pick(0, before, self.integer(0, most))
        room = size + before + after - axis.reach
        if room < 0:
            return self.axis(size, (1, *kernels[: len(kernels) // 2]))
        out = room // axis.stride + 1
        if out > 1 and self.chance(0.1):
            out -= 1
        return replace(axis, out=out, pad=before)

    def integers(self, shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
        """Return an array of any values of an integer type."""
        low, high = INTEGER_LIMITS[dtype]
        return self.random.integers(low, high + 1, shape).astype(dtype)

    def values(self, tensor: Tensor) -> NDArray[np.generic]:
        """Return an array for a tensor as it lies in memory; floats include ties and extremes."""
        shape = memory_shape(tensor)
        if tensor.dtype != "float32":
            return self.integers(shape, tensor.dtype)
        if tensor.quant is None:
            return self.random.normal(0, 100, shape).astype(np.float32)
        steps = self.random.uniform(-300, 300, shape)
        steps = np.where(self.random.random(shape) < 0.2, np.floor(steps) + 0.5, steps)
        real = (steps * tensor.quant.scale).astype(np.float32)
        special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38], np.float32)
        rare = self.random.random(shape) < 0.02
        return np.where(rare, self.random.choice(special, shape), real).astype(np.float32)


def memory_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of a tensor's array as it lies in memory."""
    if tensor.layout == "NCHW" and len(tensor.shape) == 4:
        batch, height, width, channels = tensor.shape
        return batch, channels, height, width
    return tensor.shape
