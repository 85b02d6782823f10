"""Choose the tensors that get quantised and which of them share one scale."""

from __future__ import annotations

import json
from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_vnpu.quantize.layers import layer_at
from tvm_vnpu.quantize.operators import Role, role_of
from tvm_vnpu.relax.rewrite import Rewriter, bindings_of, used_vars

TENSORS_ATTR = "vnpu.quantized_tensors"


@dataclass(frozen=True, slots=True)
class Annotate:
    """Write `vnpu.quantized_tensors`: JSON of variable name -> name of the group's first tensor.

    Inputs and results of layers, additions, means, average pools and concatenations are quantised;
    a clamp after one of them folds, so only the clamped tensor is. Moves tie result to input.
    """

    name: str = "annotate"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with the attribute on `main`."""
        chosen = _Chooser(mod["main"]).choose()
        annotated = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
        annotated["main"] = mod["main"].with_attr(TENSORS_ATTR, json.dumps(chosen))
        return annotated


def annotated_tensors(function: relax.Function) -> dict[str, str]:
    """Return variable name -> group name, as `Annotate` wrote them."""
    return dict(json.loads(str(function.attrs[TENSORS_ATTR])))


def is_activation(expr: relax.Expr) -> bool:
    """Return whether an expression is a variable that holds a float32 tensor."""
    return (
        isinstance(expr, relax.Var)
        and isinstance(expr.ty, relax.TensorType)
        and str(expr.ty.dtype) == "float32"
    )


class _Chooser(Rewriter):
    def __init__(self, function: relax.Function) -> None:
        super().__init__(function)
        self.order = [*function.params, *self.definitions]
        self.parent: dict[relax.Var, relax.Var] = {var: var for var in self.order}
        self.marked: set[relax.Var] = set()
        self.inside: set[relax.Var] = set()
        self.constant: set[relax.Var] = set()

    def choose(self) -> dict[str, str]:
        for binding in bindings_of(self.function):
            self._visit(binding.var, binding.value)
        groups = {self._root(var) for var in self.marked}
        return {
            str(var.name): str(self._root(var).name)
            for var in self.order
            if self._root(var) in groups and var not in self.inside and is_activation(var)
        }

    def _visit(self, var: relax.Var, value: relax.Expr) -> None:
        if isinstance(value, tvm.ir.Call) and all(v in self.constant for v in used_vars(value)):
            self.constant.add(var)
            return
        layer = layer_at(self, var)
        if layer is not None:
            if not layer.output.same_as(var):
                self.inside.add(var)
            self._mark_inputs(layer.call.args[:1])
            self._mark_result(layer.output)
            return
        role = role_of(value)
        if var in self.marked | self.inside:
            return
        if role in (Role.ARITHMETIC, Role.CLAMP):
            self._mark_inputs(value.args)
            self._mark_result(var)
        elif role is Role.MOVE:
            self._join(value.args[0], var)

    def _mark_inputs(self, args: list[relax.Expr]) -> None:
        for arg in args:
            fields = arg.fields if isinstance(arg, relax.Tuple) else [arg]
            self.marked.update(f for f in fields if is_activation(f) and f not in self.constant)

    def _mark_result(self, var: relax.Var) -> None:
        """Mark the result, after the clamps that fold into the operator."""
        readers = self.uses.get(var, [])
        while len(readers) == 1 and role_of(self.definitions.get(readers[0])) is Role.CLAMP:
            self.inside.add(var)
            var = readers[0]
            readers = self.uses.get(var, [])
        self.marked.add(var)

    def _root(self, var: relax.Var) -> relax.Var:
        while not self.parent[var].same_as(var):
            var = self.parent[var]
        return var

    def _join(self, source: relax.Expr, result: relax.Var) -> None:
        if is_activation(source) and is_activation(result) and source not in self.constant:
            self.parent[self._root(result)] = self._root(source)
