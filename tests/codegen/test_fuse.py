"""Border conversions fuse into the layer beside them, where the result is the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.fuse import fuse_borders
from codegen.graph import NpuGraph, QuantParams
from codegen.ops.conv2d import Conv2D
from codegen.ops.convert import Convert
from codegen.ops.draw import CaseSource
from runtime_sim.isa.fields import Rounding
from tests.codegen.drawn import NPUS
from tests.codegen.harness import Case, check, reference

NPU = NPUS["vnpu-256"]


def _lone(rounding: Rounding = Rounding.FLOAT_RNE, layout: str = "NCHW") -> NpuGraph:
    """Return quantise -> convolution -> dequantise."""
    source = CaseSource(np.random.default_rng(8), border_in=False, border_out=False)
    conv = Conv2D.draw(source)
    inner, made = conv.inputs[0], conv.outputs[0]
    x = replace(inner, name="x", dtype="float32", layout=layout)
    y = replace(made, name="y", dtype="float32", layout=layout)
    first = Convert.quantize("q", x, inner, rounding=rounding)
    last = Convert.dequantize("dq", made, y)
    return NpuGraph("g", (first, conv, last), (x,), (y,), "drawn")


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_lone_quantised_convolution_is_one_kernel(layout: str) -> None:
    graph = _lone(layout=layout)
    fused = fuse_borders(graph, NPU)
    assert [operator.kind for operator in fused.operators] == ["conv2d"]
    values = CaseSource(np.random.default_rng(1)).values(graph.inputs[0])
    check(fused, NPU, [values])
    before, after = (reference(Case("", g, NPU, [values]))[0] for g in (graph, fused))
    assert before.tobytes() == after.tobytes()


def test_ties_away_from_zero_are_not_fused() -> None:
    fused = fuse_borders(_lone(Rounding.HALF_AWAY_F64), NPU)
    assert [operator.kind for operator in fused.operators] == ["convert", "conv2d"]


def test_another_scale_is_not_fused() -> None:
    graph = _lone()
    first, conv, last = graph.operators
    y = replace(last.outputs[0], quant=QuantParams(0.125, 0))
    other = replace(last, outputs=(y,))
    fused = fuse_borders(NpuGraph("g", (first, conv, other), graph.inputs, (y,), "drawn"), NPU)
    assert [operator.kind for operator in fused.operators] == ["conv2d", "convert"]


def test_a_tensor_that_others_read_is_not_fused() -> None:
    graph = _lone()
    made = graph.operators[1].outputs[0]
    fused = fuse_borders(replace(graph, outputs=(*graph.outputs, made)), NPU)
    assert [operator.kind for operator in fused.operators] == ["conv2d", "convert"]
