"""Give every consumer of a dequantize its own copy, so that each fits into one composite."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_vnpu.relax.rewrite import Rewriter, is_call, rewrite_main


class _Duplicator(Rewriter):
    """The first use keeps the variable; each later one gets a call of its own."""

    def __init__(self, function: relax.Function) -> None:
        super().__init__(function)
        self._used: set[relax.Var] = set()

    def substitute(self, expr: relax.Expr) -> relax.Expr:
        """Return the operand; a dequantize that has a user already is computed again."""
        operand = super().substitute(expr)
        if not isinstance(operand, relax.Var):
            return operand
        value = self.value_of(operand)
        if not is_call(value, "relax.dequantize"):
            return operand
        if operand not in self._used:
            self._used.add(operand)
            return operand
        copy = self.emit(value, str(operand.name))
        self._used.add(copy)
        return copy


@dataclass(frozen=True, slots=True)
class DuplicateDequantize:
    """The pass: one consumer per dequantize."""

    name: str = "duplicate_dequantize"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with shared dequantize calls duplicated."""
        return rewrite_main(mod, _Duplicator)
