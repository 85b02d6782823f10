"""A weighted layer of a float module: convolution or dense, its constant weight and bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from tvm_vnpu.relax.rewrite import Rewriter, is_call


@dataclass(frozen=True, slots=True)
class Layer:
    """`call` (conv2d or matmul) bound to `var`; the layer's result, bias added, is `output`.

    `weight_axis` is the output channel's axis in the weight, `output_axis` in the result.
    """

    call: tvm.ir.Call
    var: relax.Var
    output: relax.Var
    weight: np.ndarray
    bias: np.ndarray | None
    weight_axis: int
    output_axis: int

    @property
    def bias_shape(self) -> list[int]:
        """Return the shape in which a bias is added to the result."""
        channels = self.weight.shape[self.weight_axis]
        return [channels] if self.weight_axis == self.weight.ndim - 1 else [1, channels, 1, 1]


def layer_at(rewriter: Rewriter, var: relax.Var) -> Layer | None:
    """Return the layer whose conv2d or matmul the old variable `var` is bound to, with its bias.

    The bias is the other operand of an add that is the only reader of the product.
    """
    call = rewriter.definitions.get(var)
    weight = _weight(rewriter, call)
    if weight is None or not isinstance(call, tvm.ir.Call):
        return None
    axis = 0 if is_call(call, "relax.nn.conv2d") else weight.ndim - 1
    output_axis = 1 if axis == 0 else len(call.ty.shape) - 1
    layer = Layer(call, var, var, weight, None, axis, output_axis)
    readers = rewriter.uses.get(var, [])
    if len(readers) != 1:
        return layer
    addition = rewriter.definitions[readers[0]]
    bias = _bias(rewriter, addition, layer)
    if bias is None:
        return layer
    return Layer(call, var, readers[0], weight, bias, axis, output_axis)


def layer_ending_at(rewriter: Rewriter, output: relax.Var) -> Layer | None:
    """Return the layer whose result is the old variable `output` and has one reader."""
    if len(rewriter.uses.get(output, [])) != 1:
        return None
    value = rewriter.definitions.get(output)
    if not is_call(value, "relax.add"):
        return layer_at(rewriter, output)
    for operand in value.args:
        layer = layer_at(rewriter, operand) if isinstance(operand, relax.Var) else None
        if layer is not None and layer.output.same_as(output):
            return layer
    return None


def constant_of(values: Mapping[relax.Var, relax.Expr], expr: relax.Expr) -> np.ndarray | None:
    """Return the value of a constant operand, also behind a reshape, or None.

    `values` holds what variables are bound to.
    """
    if isinstance(expr, relax.Var):
        expr = values.get(expr, expr)
    if isinstance(expr, tvm.ir.GenericConst):
        return expr.value.numpy()
    if is_call(expr, "relax.reshape"):
        source = constant_of(values, expr.args[0])
        return None if source is None else source.reshape([int(dim) for dim in expr.ty.shape])
    return None


def _weight(rewriter: Rewriter, call: relax.Expr | None) -> np.ndarray | None:
    if is_call(call, "relax.nn.conv2d"):
        if call.attrs.data_layout != "NCHW" or call.attrs.kernel_layout != "OIHW":
            return None
    elif not is_call(call, "relax.matmul"):
        return None
    weight = constant_of(rewriter.definitions, call.args[1])
    if weight is None or weight.dtype != np.float32:
        return None
    return weight if is_call(call, "relax.nn.conv2d") or weight.ndim == 2 else None


def _bias(rewriter: Rewriter, addition: relax.Expr, layer: Layer) -> np.ndarray | None:
    if not is_call(addition, "relax.add"):
        return None
    other = [arg for arg in addition.args if not arg.same_as(layer.var)]
    value = constant_of(rewriter.definitions, other[0]) if len(other) == 1 else None
    if value is None or value.dtype != np.float32:
        return None
    channels = layer.weight.shape[layer.weight_axis]
    rank = len(layer.call.ty.shape)
    wanted = [1] * rank
    wanted[layer.output_axis] = channels
    if value.ndim > rank or [1] * (rank - value.ndim) + list(value.shape) != wanted:
        return None
    return value.reshape(channels)
