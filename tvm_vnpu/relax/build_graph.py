"""Build the NpuGraph of a region function: composites in order, borders at both ends."""

from __future__ import annotations

import tvm
from tvm import relax

from codegen.borders import border_of
from codegen.fuse import fuse_borders
from codegen.graph import NpuGraph, Tensor
from codegen.ops.convert import Convert
from codegen.profiles import Profile
from runtime_sim.npu import NpuConfig
from tvm_vnpu.frontend.operator_names import fresh_name
from tvm_vnpu.relax.context import Context, border_tensor
from tvm_vnpu.relax.patterns import BY_COMPOSITE
from tvm_vnpu.relax.reader import Reader
from tvm_vnpu.relax.rewrite import bindings_of


def composite_name(function: relax.Function) -> str | None:
    """Return a function's composite name, or None if it is no composite of ours."""
    attrs = function.attrs
    name = str(attrs["Composite"]) if attrs and "Composite" in attrs else None
    return name if name in BY_COMPOSITE else None


def composite_reader(
    function: relax.Function, arguments: dict[relax.Var, relax.Expr]
) -> tuple[Reader, tvm.ir.Call]:
    """Return a reader of a composite's body, and its root call.

    `arguments` maps the composite's parameters to the caller's expressions.
    """
    bindings: dict[relax.Var, relax.Expr] = dict(arguments)
    for binding in bindings_of(function):
        bindings[binding.var] = binding.value
    reader = Reader(bindings)
    return reader, reader.value(function.body.body)


def build_graph(name: str, function: relax.Function, profile: Profile, npu: NpuConfig) -> NpuGraph:
    """Return the graph of a region function (attribute Codegen = "vnpu").

    Inputs and outputs are the function's, as they lie in memory; conversions at the borders are
    fused where one layer alone sees them. Raises Unsupported or ScheduleError.
    """
    context = Context(Reader({}), profile, npu)
    for param in function.params:
        if not isinstance(param.ty, relax.ShapeType):
            context.borders[param] = border_tensor(param)
    composites: dict[relax.Var, relax.Function] = {}
    for binding in bindings_of(function):
        if isinstance(binding.value, relax.Function):
            composites[binding.var] = binding.value
        elif isinstance(binding.value, tvm.ir.Call):
            _convert_call(context, binding, composites[binding.value.op])
        elif isinstance(binding.value, relax.Var):
            context.tensors[binding.var] = context.tensors[binding.value]
    outputs = _outputs(context, function)
    inputs = tuple(context.borders.values())
    graph = NpuGraph(name, tuple(context.operators), inputs, outputs, profile.name)
    return fuse_borders(graph, npu)


def _convert_call(context: Context, binding: relax.VarBinding, composite: relax.Function) -> None:
    arguments = dict(zip(composite.params, binding.value.args, strict=True))
    context.reader, root = composite_reader(composite, arguments)
    row = BY_COMPOSITE[str(composite.attrs["Composite"])]
    names = context.reader.names(root)
    name = names[-1] if names else str(binding.var.name)
    row.convert(context, root, fresh_name(name, context.operators))
    context.tensors[binding.var] = context.operators[-1].outputs[0]


def _outputs(context: Context, function: relax.Function) -> tuple[Tensor, ...]:
    result = function.body.body
    values = {binding.var: binding.value for binding in bindings_of(function)}
    while isinstance(result, relax.Var) and isinstance(values.get(result), relax.Tuple):
        result = values[result]
    fields = list(result.fields) if isinstance(result, relax.Tuple) else [result]
    return tuple(_border_output(context, context.tensors[field], field) for field in fields)


def _border_output(context: Context, tensor: Tensor, var: relax.Var) -> Tensor:
    """Return the tensor as callers see it: moved to planes where it has rows and channels."""
    border = border_tensor(var)
    planar = Tensor(f"{tensor.name}.nchw", border.shape, tensor.dtype, tensor.quant, "NCHW")
    if tensor.layout == border.layout or not border_of(planar).planar:
        return tensor
    source = next(op for op in context.operators if tensor in op.outputs).source_names
    context.add(Convert.move(planar.name, tensor, planar, source))
    return planar
