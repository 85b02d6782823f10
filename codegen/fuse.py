"""Fuse border conversions into the convolution or dense layer beside them.

A quantise (or a move from planes) that only one such layer reads becomes that layer's way of
loading; a dequantise (or a move to planes) of a result that nobody else reads, its way of storing.
A lone quantise -> convolution -> dequantise graph so becomes one kernel.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.graph import NpuGraph, Tensor
from codegen.ops.base import Operator
from codegen.ops.convert import Convert
from codegen.ops.window import WindowOperator
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig


def fuse_borders(graph: NpuGraph, npu: NpuConfig) -> NpuGraph:
    """Return the graph with border conversions fused, where the fused kernel still fits `npu`."""
    operators = list(graph.operators)
    for conversion in graph.operators:
        if not isinstance(conversion, Convert) or not _is_border(conversion):
            continue
        fused = _fuse_input(conversion, operators, graph) or _fuse_output(
            conversion, operators, graph
        )
        if fused is None:
            continue
        old, new = fused
        if not new.rejections(npu):
            operators[operators.index(old)] = new
            operators.remove(conversion)
    return NpuGraph(graph.name, tuple(operators), graph.inputs, graph.outputs, graph.profile)


def _is_border(conversion: Convert) -> bool:
    """Return whether a layer could convert in the same way: ties to even, nothing rescaled."""
    source, target = conversion.inputs[0], conversion.outputs[0]
    ties_away = conversion.mode == "quantize" and conversion.rounding != Rounding.FLOAT_RNE
    return conversion.mode != "rescale" and not ties_away and source.quant == target.quant


def _readers(tensor: Tensor, operators: list[Operator]) -> list[Operator]:
    return [op for op in operators if any(t is tensor for t in op.inputs)]


def _fuse_input(
    conversion: Convert, operators: list[Operator], graph: NpuGraph
) -> tuple[Operator, WindowOperator] | None:
    """Return (layer, layer that loads the border tensor itself), or None."""
    source, inner = conversion.inputs[0], conversion.outputs[0]
    readers = _readers(inner, operators)
    from_outside = any(source is t for t in graph.inputs)
    if len(readers) != 1 or not from_outside or any(inner is t for t in graph.outputs):
        return None
    layer = readers[0]
    if not isinstance(layer, WindowOperator):
        return None
    return layer, replace(layer, inputs=(source,))


def _fuse_output(
    conversion: Convert, operators: list[Operator], graph: NpuGraph
) -> tuple[Operator, WindowOperator] | None:
    """Return (layer, layer that stores the border tensor itself), or None."""
    inner, target = conversion.inputs[0], conversion.outputs[0]
    makers = [op for op in operators if any(t is inner for t in op.outputs)]
    to_outside = any(target is t for t in graph.outputs)
    if not makers or not to_outside or any(inner is t for t in graph.outputs):
        return None
    layer = makers[0]
    if not isinstance(layer, WindowOperator) or len(_readers(inner, operators)) != 1:
        return None
    return layer, replace(layer, outputs=(target,))
