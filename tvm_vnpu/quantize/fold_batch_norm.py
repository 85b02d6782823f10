"""Batch normalisation in inference folds into the convolution or dense layer before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from tvm_vnpu.quantize.layers import Layer, layer_ending_at
from tvm_vnpu.relax.names import call_name, with_name
from tvm_vnpu.relax.rewrite import Rewriter, is_call, rewrite_main


@dataclass(frozen=True, slots=True)
class FoldBatchNorm:
    """Fold conv2d or matmul, its bias and a following batch_norm into one layer with bias.

    weight' = weight * g, bias' = (bias - mean) * g + beta, g = gamma / sqrt(variance + epsilon).
    """

    name: str = "fold-batch-norm"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with `main` rewritten."""
        return rewrite_main(mod, _BatchNormFolder)


class _BatchNormFolder(Rewriter):
    def rewrite(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        if not isinstance(value, relax.TupleGetItem) or value.index != 0:
            return value
        norm = self.value_of(value.tuple_value)
        if not is_call(norm, "relax.nn.batch_norm"):
            return value
        layer = self._layer_of(var, norm)
        parameters = [p for p in map(_array, norm.args[1:5]) if p is not None]
        if layer is None or len(parameters) != 4:
            return value
        return self._folded(layer, norm, parameters, var)

    def _layer_of(self, var: relax.Var, norm: tvm.ir.Call) -> Layer | None:
        """Return the layer before the norm if nothing else reads it and the channels agree."""
        source = self.definitions[self.definitions[var].tuple_value].args[0]
        layer = layer_ending_at(self, source)
        if layer is None or bool(norm.attrs.training):
            return None
        return layer if int(norm.attrs.axis) == layer.output_axis else None

    def _folded(
        self, layer: Layer, norm: tvm.ir.Call, parameters: list[np.ndarray], var: relax.Var
    ) -> relax.Expr:
        gamma, beta, mean, variance = (p.astype(np.float64) for p in parameters)
        if not norm.attrs.scale:
            gamma = np.ones_like(gamma)
        if not norm.attrs.center:
            beta = np.zeros_like(beta)
        gain = gamma / np.sqrt(variance + float(norm.attrs.epsilon))
        shape = [1] * layer.weight.ndim
        shape[layer.weight_axis] = -1
        weight = (layer.weight * gain.reshape(shape)).astype(np.float32)
        old_bias = np.zeros_like(mean) if layer.bias is None else layer.bias
        bias = ((old_bias - mean) * gain + beta).astype(np.float32)
        call = tvm.ir.Call(
            layer.call.op,
            [self.substitute(layer.call.args[0]), relax.const(weight)],
            layer.call.attrs,
            list(layer.call.ty_args),
            layer.call.span,
        )
        product = self.emit(call, f"{layer.var.name}_folded")
        addend = relax.const(bias.reshape(layer.bias_shape))
        result = relax.op.add(product, addend)
        name = call_name(norm)
        return result if name is None else with_name(result, name)


def _array(expr: relax.Expr) -> np.ndarray | None:
    return expr.value.numpy() if isinstance(expr, tvm.ir.GenericConst) else None
