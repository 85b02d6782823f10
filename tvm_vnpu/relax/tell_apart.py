"""Make calls that differ in their node only differ for TVM too, so that names survive fusion."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_vnpu.relax.rewrite import Rewriter, is_call, rewrite_main

_ROOTS = ("relax.quantize", "relax.dequantize")


class _Marker(Rewriter):
    """Numbers the calls that a composite may end in."""

    def rewrite(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """Return a quantize or dequantize with a type argument that no other call has."""
        del var
        if not is_call(value, *_ROOTS):
            return value
        mark = relax.ShapeType([len(self.replaced)])
        return tvm.ir.Call(value.op, list(value.args), value.attrs, [mark], value.span)


@dataclass(frozen=True, slots=True)
class TellApart:
    """The pass: TVM makes one function of composites that are equal but for their spans.

    Two additions with equal scales would then go by the name of the first. The type argument that
    keeps them apart means nothing to the operators.
    """

    name: str = "tell_apart"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with marked calls."""
        return rewrite_main(mod, _Marker)
