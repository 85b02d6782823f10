"""Products of activations: qnn.batch_matmul, and qnn.dense with weights that are computed.

A product is clamp(requantize(clamp(bias + x y))), each operand perhaps behind a transposition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tvm import relay

from codegen.arithmetic import INTEGER_LIMITS
from codegen.graph import QuantParams, Tensor
from codegen.ops.dense import Dense
from codegen.ops.matmul import Matmul
from codegen.quantization import Requant
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, NotOneBatch, Placed
from tvm_vnpu.relay.layouts import NHWC, constant_as_npu
from tvm_vnpu.relay.ops.requantizing import (
    Reach,
    check_range,
    requantize_scaling,
    wrapped,
)
from tvm_vnpu.relay.ops.window import (
    Matched,
    convert_dense,
    layer_fields,
    match,
    result_clamp,
)
from tvm_vnpu.relay.reader import integer_type, static_shape

Swapped = tuple[bool, bool]


@dataclass(frozen=True, slots=True, eq=False)
class _Operand:
    """One side of a product as it lies in memory; `data` where it is constant."""

    expr: relay.Expr
    transposed: bool
    quant: QuantParams
    data: NDArray[np.generic] | None

    @property
    def matrices(self) -> int:
        """Return how many matrices are stacked."""
        shape = static_shape(self.expr)
        return shape[0] if len(shape) == 3 else 1

    @property
    def rows(self) -> int:
        """Return how many rows a matrix has in memory."""
        return static_shape(self.expr)[-2]


def convert_batch_matmul(
    context: Context, root: relay.Call, name: str, swapped: Swapped = (False, False)
) -> Placed:
    """Add a qnn.batch_matmul composite; Unsupported says why it cannot be.

    `swapped`: which operands the composite transposes first.
    """
    m = match(context, root, "qnn.batch_matmul")
    x, y = _operands(context, m, swapped)
    if context.semantics.is_relay and x.quant.zero_point == 0 != y.quant.zero_point:
        raise Unsupported(
            "TVM's qnn.batch_matmul forgets the second zero point where the first is 0",
            seen=y.quant.zero_point,
        )
    if y.data is not None and y.matrices == 1 and not any(swapped):
        weight = np.ascontiguousarray(y.data[0])[:, None, None, :]
        layer = Dense(**layer_fields(context, m, name, weight, NHWC))  # type: ignore[arg-type]
        context.add(layer)
        return Placed(layer.outputs[0], NHWC)
    return _product(context, m, name, x, y)


def convert_any_dense(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a qnn.dense composite; computed weights (N, K) make it a product of activations."""
    m = match(context, root, "qnn.dense")
    if context.reader.constant(m.call.args[1]) is not None:
        return convert_dense(context, root, name)
    x, y = _operands(context, m, (False, False))
    if not context.whole and (x.rows, y.rows) != (1, 1):
        raise NotOneBatch("rows beside computed weights are no batch", seen=f"{x.rows}, {y.rows}")
    return _product(context, m, name, x, y)


def _operands(context: Context, m: Matched, swapped: Swapped) -> tuple[_Operand, _Operand]:
    x, y, x_zp, y_zp, x_scale, y_scale = m.call.args
    quant = context.reader.quant
    return (
        _operand(context, x, quant(x_scale, x_zp), swapped[0]),
        _operand(context, y, quant(y_scale, y_zp), swapped[1]),
    )


def _operand(context: Context, expr: relay.Expr, quant: QuantParams, swapped: bool) -> _Operand:
    """Return an operand; its transposition is a matter of strides."""
    reader = context.reader
    if swapped:
        call = reader.require(expr, "transpose")
        axes = tuple(int(axis) % 3 for axis in call.attrs.axes or ())
        if axes != (0, 2, 1):
            raise Unsupported("operands of a product may swap rows and columns", seen=axes)
        expr = call.args[0]
    return _Operand(reader.value(expr), swapped, quant, reader.constant(expr))


def _product(context: Context, m: Matched, name: str, x: _Operand, y: _Operand) -> Placed:
    a, b = _tensor(context, x), _tensor(context, y)
    output = context.result(name, m.root, m.requantize.quant, NHWC)
    bias = m.bias - m.requantize.in_zero_point
    scaling = requantize_scaling(m.requantize, x.quant.scale, np.array([y.quant.scale], np.float32))
    depth = a.hwc[1] if x.transposed else a.hwc[2]
    reach = _reach(x, y, depth, bias)
    check_range(context.semantics, scaling, reach)
    low, high = result_clamp(m, scaling, reach)
    requant = Requant(scaling, m.requantize.quant.zero_point, low, high, m.requantize.dtype)
    context.add(
        Matmul(
            name=name, inputs=(a, b), outputs=(output,), source_names=context.names(m.root),
            transpose_a=x.transposed, transpose_b=not y.transposed, bias=bias.astype(np.int32),
            requant=requant,
        )
    )  # fmt: skip
    return Placed(output, NHWC)


def _tensor(context: Context, operand: _Operand) -> Tensor:
    if operand.data is None:
        context.shape(operand.expr)
        return context.activation(operand.expr, operand.quant, NHWC)
    if operand.matrices > 1 and not context.whole:
        raise NotOneBatch("matrices of a constant are no batch", seen=operand.data.shape)
    array = constant_as_npu(operand.data, operand.data.ndim, NHWC, context.whole)
    return Tensor("constant", tuple(array.shape), array.dtype.name, operand.quant, data=array)


def _reach(x: _Operand, y: _Operand, depth: int, bias: NDArray[np.int64]) -> Reach:
    """Return the least and the largest sum of each column, over all operands."""
    ends = []
    for operand in (x, y):
        limits = INTEGER_LIMITS[integer_type(operand.expr)]
        ends.append([limit - operand.quant.zero_point for limit in limits])
    corners = [a * b for a in ends[0] for b in ends[1]]
    return wrapped(depth * min(corners) + bias, depth * max(corners) + bias)
