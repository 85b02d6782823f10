"""What converting a matched operator needs: tensors by variable, profile, NPU, results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import relax

from codegen.borders import border_of
from codegen.graph import QuantParams, Tensor
from codegen.ops.base import Operator
from codegen.ops.convert import Convert
from codegen.ops.reshape import Reshape
from codegen.profiles import Profile
from runtime_sim.npu import NpuConfig
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax.reader import Dequantized, Reader, check_integer, dtype_of, static_shape


@dataclass(slots=True)
class Context:
    """Collects the operators that Relax calls become.

    `borders`: the region's parameters as they lie in memory (NCHW). `tensors`: what variables
    are to the operators (NHWC); a parameter gets there when its first reader names its
    quantisation. Unknown variables become placeholders, which is all that a predicate needs.
    """

    reader: Reader
    profile: Profile
    npu: NpuConfig
    borders: dict[relax.Var, Tensor] = field(default_factory=dict)
    tensors: dict[relax.Var, Tensor] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    batch_of: relax.Expr | None = None

    def activation(self, operand: Dequantized, rank: int | None = None) -> Tensor:
        """Return the NHWC tensor behind a dequantize, with that dequantize's parameters.

        `rank`: the rank of the result, which constants are broadcast to and variables must have.
        Raises Unsupported for a constant with a batch of its own and, where `batch_of` is set
        (in predicates), for a variable whose batch is not that expression's.
        """
        quant = operand.per_tensor()
        check_integer(operand.dtype)
        if operand.data is not None:
            return _constant(operand.data, operand.dtype, quant, rank or operand.data.ndim)
        if rank is not None and len(operand.shape) != rank:
            raise Unsupported(
                "operands must have the result's rank: NumPy broadcasting would move the batch",
                seen=f"rank {len(operand.shape)}",
                limit=rank,
            )
        if self.batch_of is not None:
            check_batch(operand.source, self.batch_of)
        tensor = self._resolve(operand.source, quant)
        if tensor.quant == quant:
            return tensor
        view = Tensor(f"{tensor.name}.requantised", tensor.shape, tensor.dtype, quant)
        self.add(Reshape(name=view.name, inputs=(tensor,), outputs=(view,)))
        return view

    def float_input(self, expr: relax.Expr, quant: QuantParams) -> Tensor:
        """Return a float parameter as it lies in memory; it keeps its first reader's `quant`."""
        tensor = self.borders.get(expr) if isinstance(expr, relax.Var) else None
        tensor = tensor or border_tensor(expr)
        if tensor.quant is None:
            tensor = replace(tensor, quant=quant)
        if isinstance(expr, relax.Var) and expr in self.borders:
            self.borders[expr] = tensor
        return tensor

    def result(self, name: str, expr: relax.Expr, dtype: str, quant: QuantParams | None) -> Tensor:
        """Return a new NHWC tensor of the shape that a Relax expression has."""
        return Tensor(name, npu_shape(static_shape(expr)), dtype, quant)

    def add(self, operator: Operator) -> None:
        """Append an operator."""
        self.operators.append(operator)

    def _resolve(self, expr: relax.Expr, quant: QuantParams) -> Tensor:
        if not isinstance(expr, relax.Var):
            raise Unsupported("operands must be variables or constants", seen=type(expr).__name__)
        if expr not in self.tensors:
            border = replace(self.borders.get(expr, border_tensor(expr)), quant=quant)
            if border_of(border).planar and expr in self.borders:
                self.tensors[expr] = self._to_nhwc(border)
            else:
                self.tensors[expr] = replace(border, layout="NHWC")
            if expr in self.borders:
                planar = border_of(border).planar
                self.borders[expr] = border if planar else self.tensors[expr]
        return self.tensors[expr]

    def _to_nhwc(self, border: Tensor) -> Tensor:
        inner = replace(border, name=f"{border.name}.nhwc", layout="NHWC")
        self.add(Convert.move(inner.name, border, inner))
        return inner


def _constant(data: NDArray[np.generic], dtype: str, quant: QuantParams, rank: int) -> Tensor:
    shaped = data.reshape((1,) * (rank - data.ndim) + data.shape)
    if shaped.ndim > 1 and shaped.shape[0] != 1:
        raise Unsupported("constants must not have a batch of their own", seen=data.shape)
    if shaped.ndim == 4:
        shaped = np.ascontiguousarray(shaped.transpose(0, 2, 3, 1))
    return Tensor("constant", tuple(shaped.shape), dtype, quant, data=shaped)


def check_batch(operand: relax.Expr, result: relax.Expr) -> None:
    """Raise Unsupported unless both have the same leading axis: images are independent."""
    ours, theirs = operand.ty.shape[0], result.ty.shape[0]
    if not tvm_ffi.structural_equal(ours, theirs):
        seen, limit = (getattr(size, "value", size) for size in (ours, theirs))
        raise Unsupported("operands must have the result's batch", seen=seen, limit=limit)


def border_tensor(expr: relax.Expr, name: str | None = None) -> Tensor:
    """Return the tensor of a Relax variable as it lies in memory: NCHW where it has four axes."""
    shape = static_shape(expr)
    layout = "NCHW" if len(shape) == 4 else "NHWC"
    return Tensor(
        name or str(getattr(expr, "name", "value")), npu_shape(shape), dtype_of(expr), None, layout
    )


def npu_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the per-image NHWC shape of an NCHW (or lower rank) Relax shape."""
    if not 2 <= len(shape) <= 4:
        raise Unsupported(
            "tensors must have 2 to 4 axes, the first of them the batch", seen=tuple(shape)
        )
    if min(shape) < 1:
        raise Unsupported("tensors must not be empty", seen=tuple(shape))
    if len(shape) == 4:
        return (1, shape[2], shape[3], shape[1])
    return (1, *shape[1:])
