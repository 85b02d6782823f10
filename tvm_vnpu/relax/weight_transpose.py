"""Transposed constants become constants: a dense layer's weight is [K, N] in the module."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from tvm_vnpu.relax.names import call_name, with_name
from tvm_vnpu.relax.rewrite import Rewriter, is_call, rewrite_main


@dataclass(frozen=True, slots=True)
class FoldWeightTranspose:
    """Replace permute_dims of a constant, or of a dequantised constant, by a transposed constant.

    The quantised weight stays integer; the channel axis of its scales moves with it.
    """

    name: str = "fold-weight-transpose"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with `main` rewritten."""
        return rewrite_main(mod, _TransposeFolder)


class _TransposeFolder(Rewriter):
    def rewrite(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        if not is_call(value, "relax.permute_dims"):
            return value
        source = self.value_of(value.args[0])
        if isinstance(source, tvm.ir.GenericConst):
            return _transposed(source, value)
        if is_call(source, "relax.dequantize") and isinstance(source.args[0], tvm.ir.GenericConst):
            return _transposed_dequantize(source, value)
        return value


def _order(call: tvm.ir.Call, rank: int) -> list[int]:
    axes = call.attrs.axes
    return list(range(rank))[::-1] if axes is None else [int(axis) % rank for axis in axes]


def _transposed(constant: tvm.ir.GenericConst, call: tvm.ir.Call) -> tvm.ir.GenericConst:
    value = constant.value.numpy()
    return relax.const(np.ascontiguousarray(value.transpose(_order(call, value.ndim))))


def _transposed_dequantize(source: tvm.ir.Call, call: tvm.ir.Call) -> relax.Expr:
    data, scale, zero_point = source.args
    order = _order(call, len(data.value.shape))
    axis = order.index(int(source.attrs.axis) % len(order))
    result = relax.op.dequantize(
        _transposed(data, call), scale, zero_point, axis=axis, out_dtype=source.attrs.out_dtype
    )
    name = call_name(source) or call_name(call)
    return result if name is None else with_name(result, name)
