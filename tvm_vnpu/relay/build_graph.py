"""Build the NpuGraph of a region function: composites in order, borders at both ends."""

from __future__ import annotations

from collections.abc import Iterator

from tvm import relay

from codegen.borders import border_of
from codegen.fuse import fuse_borders
from codegen.graph import NpuGraph, Tensor
from codegen.ops.convert import Convert
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.frontend.operator_names import fresh_name
from tvm_vnpu.relay.context import Context, NotOneBatch, Placed
from tvm_vnpu.relay.layouts import NCHW
from tvm_vnpu.relay.patterns import BY_COMPOSITE
from tvm_vnpu.relay.reader import Reader, static_shape
from tvm_vnpu.relay.semantics import Semantics


def composite_name(expr: relay.Expr) -> str:
    """Return the composite that an expression calls, or '' if it is no composite of ours."""
    if not isinstance(expr, relay.Call) or not isinstance(expr.op, relay.Function):
        return ""
    attrs = expr.op.attrs
    name = str(attrs["Composite"]) if attrs and "Composite" in attrs else ""
    return name if name in BY_COMPOSITE else ""


def composite_calls(function: relay.Function) -> Iterator[relay.Call]:
    """Yield the calls of composites of a region function, operands first."""
    order: list[relay.Call] = []

    def visit(expr: relay.Expr) -> None:
        if composite_name(expr):
            order.append(expr)

    relay.analysis.post_order_visit(function.body, visit)
    yield from order


def build_graph(
    name: str, function: relay.Function, semantics: Semantics, npu: NpuConfig, layout: str = NCHW
) -> NpuGraph:
    """Return the graph of a typed region function (attribute Compiler = "vnpu").

    Inputs and outputs are the function's, as they lie in memory; conversions at the borders are
    fused where one layer alone sees them. Where first axes are not one batch, the tensors are
    taken whole. Raises Unsupported or ScheduleError.
    """
    try:
        context = _converted(function, Context(Reader(), semantics, npu, layout))
    except NotOneBatch as mismatch:
        try:
            context = _converted(function, Context(Reader(), semantics, npu, layout, whole=True))
        except VnpuError:
            raise mismatch from None
    outputs = tuple(_border_output(context, expr) for expr in results(function))
    inputs = tuple(tensor for tensor in context.borders.values() if tensor is not None)
    graph = NpuGraph(name, tuple(context.operators), inputs, outputs, semantics.profile.name)
    return fuse_borders(graph, npu)


def _converted(function: relay.Function, context: Context) -> Context:
    """Return the context with all composites of a region function converted."""
    context.inside_composite = True
    context.borders = dict.fromkeys(function.params)
    for call in composite_calls(function):
        context.reader = Reader(dict(zip(call.op.params, call.args, strict=True)))
        row = BY_COMPOSITE[composite_name(call)]
        root = call.op.body
        names = context.names(root)
        fresh = fresh_name(names[-1] if names else row.name, context.operators)
        placed = row.convert(context, root, fresh)
        context.placed[call] = placed
    return context


def results(function: relay.Function) -> list[relay.Expr]:
    """Return the expressions that a function returns, one or the fields of a tuple."""
    body = function.body
    return list(body.fields) if isinstance(body, relay.Tuple) else [body]


def _border_output(context: Context, expr: relay.Expr) -> Tensor:
    """Return the tensor as callers see it: moved to planes where Relay's axes are NCHW."""
    placed: Placed = context.placed[expr]
    tensor = placed.tensor
    planar = Tensor(f"{tensor.name}.nchw", tensor.shape, tensor.dtype, tensor.quant, NCHW)
    wanted = placed.layout == NCHW and len(static_shape(expr)) == 4
    if tensor.layout == NCHW or not wanted or not border_of(planar).planar:
        return tensor
    source = next(op for op in context.operators if tensor in op.outputs).source_names
    context.add(Convert.move(planar.name, tensor, planar, source))
    return planar
