"""NpuGraph: typed tensors with quantisation and integer operators, each with its source names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runtime_sim.errors import VnpuError

if TYPE_CHECKING:
    from codegen.ops.base import Operator

DTYPE_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "float32": 4}


class GraphError(VnpuError):
    """An NpuGraph is not well formed."""


@dataclass(frozen=True, slots=True)
class QuantParams:
    """real = scale * (q - zero_point), per tensor. `scale` is a float32 value kept as float."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of one image; compared by identity.

    `shape` has a leading 1; rank 4 is logical (1, H, W, C). `layout` says how a rank-4 border
    tensor lies in memory: NHWC, or NCHW (planes). Constants carry `data` of that shape.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: QuantParams | None = None
    layout: str = "NHWC"
    data: NDArray[np.generic] | None = None

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self.elements * DTYPE_BYTES[self.dtype]

    @property
    def hwc(self) -> tuple[int, int, int]:
        """Return the tensor as (rows, columns, channels)."""
        shape = self.shape[1:] if len(self.shape) > 1 else self.shape
        if len(shape) > 3:
            raise GraphError(f"tensor {self.name!r} has too many axes", seen=self.shape, limit=4)
        height, width, channels = (1,) * (3 - len(shape)) + tuple(shape)
        return height, width, channels


@dataclass(frozen=True, slots=True, eq=False)
class NpuGraph:
    """Operators in execution order, with the region's inputs and outputs."""

    name: str
    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    profile: str

    def tensors(self) -> Iterator[Tensor]:
        """Yield each tensor once: inputs, then operator outputs in order."""
        yield from self.inputs
        for operator in self.operators:
            yield from operator.outputs

    def verify(self) -> None:
        """Raise GraphError unless every tensor is made once, before it is used."""
        made = {id(tensor) for tensor in self.inputs}
        for operator in self.operators:
            for tensor in operator.inputs:
                if tensor.data is None and id(tensor) not in made:
                    raise GraphError(
                        f"{operator.name}: input {tensor.name!r} is not made before use"
                    )
            for tensor in operator.outputs:
                if id(tensor) in made:
                    raise GraphError(f"{operator.name}: output {tensor.name!r} is made twice")
                made.add(id(tensor))
        for tensor in self.outputs:
            if id(tensor) not in made:
                raise GraphError(f"graph output {tensor.name!r} is never made")

    def print(self) -> str:
        """Return the graph as text, one operator a line."""
        lines = [f"graph {self.name} [{self.profile}] ({', '.join(map(_typed, self.inputs))})"]
        for operator in self.operators:
            results = ", ".join(map(_typed, operator.outputs))
            names = ", ".join(tensor.name for tensor in operator.inputs)
            sources = "+".join(operator.source_names)
            lines.append(
                f"  {results} = {operator.kind}({names}) {operator.describe()}  # {sources}"
            )
        lines.append(f"  return {', '.join(tensor.name for tensor in self.outputs)}")
        return "\n".join(lines)


def quant_of(tensor: Tensor) -> QuantParams:
    """Return a tensor's quantisation; GraphError if it has none."""
    if tensor.quant is None:
        raise GraphError(f"tensor {tensor.name!r} has no quantisation", fix="give it QuantParams")
    return tensor.quant


def _typed(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape))
    text = f"{tensor.name}: {tensor.dtype}[{shape}]"
    if tensor.quant is not None:
        text += f"@{tensor.quant.scale:.6g}{tensor.quant.zero_point:+d}"
    return text + (" NCHW" if tensor.layout == "NCHW" else "")
