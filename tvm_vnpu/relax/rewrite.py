"""Rebuild a Relax function binding by binding, keeping variable names and spans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

import tvm
from tvm import relax

from tvm_vnpu.relax.names import call_name, identifier, with_name


def is_call(expr: object, *operators: str) -> TypeGuard[tvm.ir.Call]:
    """Return whether `expr` calls one of the named Relax operators, for example `relax.add`."""
    return (
        isinstance(expr, tvm.ir.Call)
        and isinstance(expr.op, tvm.ir.Op)
        and str(expr.op.name) in operators
    )


def with_args(call: tvm.ir.Call, args: Sequence[relax.Expr]) -> tvm.ir.Call:
    """Return the call with other arguments; attributes, type arguments and span stay."""
    return tvm.ir.Call(call.op, list(args), call.attrs, list(call.ty_args), call.span)


class Rewriter:
    """Rebuilds one straight-line function; subclasses override `rewrite`."""

    def __init__(self, function: relax.Function) -> None:
        """Prepare to rebuild `function`.

        `definitions` maps every old variable to its value, `uses` to the variables computed from
        it; the function's result counts as one more use. `built` holds the new variables' values.
        """
        self.function = function
        self.builder = relax.BlockBuilder()
        self.replaced: dict[relax.Var, relax.Expr] = {}
        self.built: dict[relax.Var, relax.Expr] = {}
        self.definitions: dict[relax.Var, relax.Expr] = {}
        self.uses: dict[relax.Var, list[relax.Var]] = {}
        for binding in bindings_of(function):
            self.definitions[binding.var] = binding.value
            for var in used_vars(binding.value):
                self.uses.setdefault(var, []).append(binding.var)
        caller = relax.Var("caller", relax.ObjectType())
        for var in used_vars(function.body.body):
            self.uses.setdefault(var, []).append(caller)
        self._parameters = {str(param.name) for param in function.params}

    def rewrite(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """Return what an old variable stands for from now on; `value` has new operands."""
        return value

    def emit(self, value: relax.Expr, name: str, node: str | None = None) -> relax.Var:
        """Bind a new expression, its calls named after the source node if one is given."""
        if node is not None and isinstance(value, tvm.ir.Call) and call_name(value) is None:
            value = with_name(value, node)
        name = identifier(name)
        while name in self._parameters:
            name += "_value"
        new = self.builder.emit(value, name)
        self.built[new] = self.builder.lookup_binding(new)
        return new

    def value_of(self, expr: relax.Expr) -> relax.Expr:
        """Return what a new variable is bound to, or the expression itself."""
        return self.built.get(expr, expr) if isinstance(expr, relax.Var) else expr

    def substitute(self, expr: relax.Expr) -> relax.Expr:
        """Return an old expression with its variables replaced by what they stand for now."""
        if isinstance(expr, relax.Var):
            return self.replaced.get(expr, expr)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.substitute(field) for field in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            source = self.substitute(expr.tuple_value)
            if isinstance(source, relax.Tuple):
                return source.fields[expr.index]
            return relax.TupleGetItem(source, expr.index)
        if isinstance(expr, tvm.ir.Call):
            return with_args(expr, [self.substitute(arg) for arg in expr.args])
        return expr

    def begin(self) -> None:
        """Emit what comes before the first binding, for example a quantised input."""

    def run(self) -> relax.Function:
        """Return the rebuilt function with the attributes of the old one."""
        function, builder = self.function, self.builder
        result = function.body.body
        with builder.function("main", list(function.params)):
            with builder.dataflow():
                self.begin()
                for binding in bindings_of(function):
                    self._rebuild(binding)
                output = builder.emit_output(self.substitute(result))
            builder.emit_func_output(output)
        rebuilt = builder.get()["main"]
        return rebuilt.with_attrs(function.attrs) if function.attrs else rebuilt

    def _rebuild(self, binding: relax.VarBinding) -> None:
        old = binding.var
        value = self.rewrite(old, self.substitute(binding.value))
        if isinstance(value, (tvm.ir.Call, relax.TupleGetItem)):
            value = self.emit(value, old.name)
        self.replaced[old] = value


def bindings_of(function: relax.Function) -> list[relax.VarBinding]:
    """Return every binding of a function in order."""
    return [binding for block in function.body.blocks for binding in block.bindings]


def used_vars(expr: relax.Expr) -> list[relax.Var]:
    """Return the variables an expression reads, one entry per operand."""
    if isinstance(expr, relax.Var):
        return [expr]
    if isinstance(expr, relax.TupleGetItem):
        return used_vars(expr.tuple_value)
    operands: Sequence[relax.Expr] = ()
    if isinstance(expr, relax.Tuple):
        operands = expr.fields
    elif isinstance(expr, tvm.ir.Call):
        operands = expr.args
    return [var for operand in operands for var in used_vars(operand)]


def is_straight_line(function: relax.Function) -> bool:
    """Return whether a function has dataflow blocks of plain bindings only: no control flow."""
    return all(
        isinstance(block, relax.DataflowBlock)
        and all(isinstance(binding, relax.VarBinding) for binding in block.bindings)
        for block in function.body.blocks
    )


def rewrite_main(mod: tvm.IRModule, make: Callable[[relax.Function], Rewriter]) -> tvm.IRModule:
    """Return a copy of the module whose `main` went through a rewriter, if it is straight-line."""
    function = mod["main"]
    if not is_straight_line(function):
        return mod
    functions = dict(mod.functions.items())
    functions[mod.get_global_var("main")] = make(function).run()
    return relax.transform.DeadCodeElimination()(tvm.IRModule(functions, attrs=mod.attrs))
