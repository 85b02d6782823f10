"""Explicit quantisation: Q/DQ around the chosen tensors, integer weights and biases."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from tvm_vnpu.quantize import qparams as arithmetic
from tvm_vnpu.quantize.annotate import TENSORS_ATTR, annotated_tensors
from tvm_vnpu.quantize.calibrate import RANGES_ATTR
from tvm_vnpu.quantize.layers import Layer, constant_of, layer_at
from tvm_vnpu.quantize.operators import Role, role_of
from tvm_vnpu.quantize.qparams import QParams
from tvm_vnpu.quantize.recipe import Recipe
from tvm_vnpu.relax.names import PROFILE_ATTR, call_name, input_names
from tvm_vnpu.relax.rewrite import Rewriter, rewrite_main, with_args


@dataclass(frozen=True, slots=True)
class InsertQDQ:
    """Turn annotations and ranges into Q/DQ, in the form onnxruntime's static quantiser gives.

    Activations: int8 per tensor. Weights: int8 constants with one scale per output channel. Biases:
    int32 constants whose scale is input scale times weight scale. Sets the profile `integer`.
    """

    recipe: Recipe = Recipe()
    name: str = "insert-qdq"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with explicit Q/DQ; annotations and ranges are used up."""
        result = rewrite_main(mod, lambda function: _Inserter(function, self.recipe, mod))
        main = result["main"].without_attr(TENSORS_ATTR).without_attr(RANGES_ATTR)
        result["main"] = main.with_attr(PROFILE_ATTR, "integer")
        return result


class _Inserter(Rewriter):
    def __init__(self, function: relax.Function, recipe: Recipe, mod: tvm.IRModule) -> None:
        super().__init__(function)
        self.recipe = recipe
        self.input_names = input_names(mod)
        self.qparams = _group_qparams(function, recipe)
        self.biases: dict[relax.Var, tuple[Layer, np.ndarray, np.ndarray]] = {}

    def begin(self) -> None:
        for param, name in zip(self.function.params, self.input_names):
            if str(param.name) in self.qparams:
                self.replaced[param] = self._pair(param, str(param.name), name)

    def rewrite(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        layer = layer_at(self, var)
        if layer is not None and str(getattr(layer.call.args[0], "name", "")) in self.qparams:
            value = self._quantized_layer(layer, value)
        elif var in self.biases:
            value = self._quantized_bias(var, value)
        elif role_of(value) is Role.ARITHMETIC and str(var.name) in self._results(var):
            value = self._with_quantized_constants(value)
        if str(var.name) not in self.qparams:
            return value
        bound = self.emit(value, str(var.name))
        return self._pair(bound, str(var.name), call_name(value) or str(var.name))

    def _results(self, var: relax.Var) -> set[str]:
        """Return the names its quantised result may have: its own or that of a clamp after it."""
        names = {str(var.name)}
        readers = self.uses.get(var, [])
        while len(readers) == 1 and role_of(self.definitions.get(readers[0])) is Role.CLAMP:
            names.add(str(readers[0].name))
            readers = self.uses.get(readers[0], [])
        return names if names & set(self.qparams) else set()

    def _pair(self, bound: relax.Var, name: str, node: str) -> relax.Var:
        params = self.qparams[name]
        scale, zero_point = relax.const(params.scale), relax.const(np.int8(params.zero_point))
        axis = 1 if len(bound.ty.shape) > 1 else 0
        quantized = self.emit(
            relax.op.quantize(bound, scale, zero_point, axis=axis, out_dtype="int8"),
            f"{name}_QuantizeLinear",
            f"{node}_QuantizeLinear",
        )
        return self.emit(
            relax.op.dequantize(quantized, scale, zero_point, axis=axis, out_dtype="float32"),
            f"{name}_DequantizeLinear",
            f"{node}_DequantizeLinear",
        )

    def _quantized_layer(self, layer: Layer, value: tvm.ir.Call) -> tvm.ir.Call:
        source = self.qparams[str(layer.call.args[0].name)]
        scales = arithmetic.weight_scales(
            layer.weight,
            layer.weight_axis,
            float(source.scale),
            layer.bias,
            self.recipe.per_channel,
        )
        weight = arithmetic.quantize_weight(layer.weight, layer.weight_axis, scales)
        node = call_name(layer.call) or str(layer.var.name)
        dequantized = self.emit(
            relax.op.dequantize(
                relax.const(weight.values),
                relax.const(scales),
                relax.const(np.zeros(scales.shape, np.int8)),
                axis=layer.weight_axis,
                out_dtype="float32",
            ),
            f"{layer.var.name}_weight",
            f"{node}_weight_DequantizeLinear",
        )
        if layer.bias is not None:
            scales = arithmetic.bias_scales(source.scale, scales)
            self.biases[layer.output] = (layer, layer.bias, scales)
        return with_args(value, [value.args[0], dequantized])

    def _quantized_bias(self, var: relax.Var, value: tvm.ir.Call) -> tvm.ir.Call:
        layer, values, scales = self.biases[var]
        node = call_name(layer.call) or str(layer.var.name)
        bias: relax.Expr = self.emit(
            relax.op.dequantize(
                relax.const(arithmetic.quantize_bias(values, scales)),
                relax.const(scales),
                relax.const(np.zeros(scales.shape, np.int32)),
                axis=0,
                out_dtype="float32",
            ),
            f"{layer.var.name}_bias",
            f"{node}_bias_DequantizeLinear",
        )
        if layer.output_axis != len(layer.call.ty.shape) - 1:
            bias = self.emit(
                relax.op.reshape(bias, layer.bias_shape), f"{layer.var.name}_bias_reshape", node
            )
        return with_args(value, [self.replaced[layer.var], bias])

    def _with_quantized_constants(self, value: tvm.ir.Call) -> tvm.ir.Call:
        return with_args(value, [self._quantized_constant(arg) for arg in value.args])

    def _quantized_constant(self, expr: relax.Expr) -> relax.Expr:
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self._quantized_constant(field) for field in expr.fields])
        values = constant_of(self.built, expr)
        if values is None or values.dtype != np.float32:
            return expr
        params = arithmetic.activation_qparams(
            float(values.min()), float(values.max()), self.recipe.symmetric_activations
        )
        return self.emit(
            relax.op.dequantize(
                relax.const(arithmetic.quantize_values(values, params)),
                relax.const(params.scale),
                relax.const(np.int8(params.zero_point)),
                axis=1 if values.ndim > 1 else 0,
                out_dtype="float32",
            ),
            "constant",
            "constant_DequantizeLinear",
        )


def _group_qparams(function: relax.Function, recipe: Recipe) -> dict[str, QParams]:
    """Return the parameters of every chosen tensor; a group has those of its joint range."""
    tensors = annotated_tensors(function)
    ranges: dict[str, list[float]] = json.loads(str(function.attrs[RANGES_ATTR]))
    joint: dict[str, tuple[float, float]] = {}
    for name, group in tensors.items():
        low, high = ranges[name]
        old_low, old_high = joint.get(group, (low, high))
        joint[group] = (min(low, old_low), max(high, old_high))
    return {
        name: arithmetic.activation_qparams(*joint[group], recipe.symmetric_activations)
        for name, group in tensors.items()
    }
