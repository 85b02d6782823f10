"""Programs: shared kernels, constants, the arena, copies and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.emit_c import emit_c
from codegen.graph import GraphError, NpuGraph, QuantParams, Tensor, quant_of
from codegen.memory import ConstantBlob, place
from codegen.ops.conv2d import Conv2D
from codegen.ops.draw import CaseSource
from codegen.ops.reshape import Reshape
from codegen.ops.window import draw_weights
from codegen.profiles import scaling
from codegen.program import build_program
from codegen.quantization import Requant
from codegen.schedule import Schedule
from runtime_sim.isa.fields import Rounding
from tests.codegen.drawn import NPUS
from tests.codegen.harness import check

NPU = NPUS["vnpu-256"]
SIGNED = QuantParams(0.5, 3)


def _conv(source: CaseSource, x: Tensor) -> Conv2D:
    """Return a padded int8 3x3 convolution of `x` with random weights."""
    channels = x.hwc[2]
    fields = draw_weights(source, x, (channels, 3, 3, channels), x.hwc)
    number = source.name("conv")
    fields |= {
        "outputs": (Tensor(f"y{number}", x.shape, "int8", SIGNED),),
        "weight": source.integers((channels, 3, 3, channels), "int8"),
        "bias": source.random.integers(-999, 999, channels).astype(np.int32),
        "weight_zero_point": np.zeros(1, np.int64),
    }
    scales = scaling(Rounding.SINGLE_UP, source.random.uniform(1e-3, 2e-3, channels))
    fields["requant"] = Requant(scales, 3, -128, 127, "int8")
    return Conv2D(name=number, padding=(1, 1), source_names=(f"layer/{number}",), **fields)


def _chain(length: int, channels: int = 8) -> NpuGraph:
    """Return 3x3 convolutions of one shape in a row, each with weights of its own."""
    source = CaseSource(np.random.default_rng(1), border_in=False, border_out=False)
    x = Tensor("x/in:0", (1, 12, 12, channels), "int8", SIGNED)
    convs: list[Conv2D] = []
    for _ in range(length):
        convs.append(_conv(source, convs[-1].outputs[0] if convs else x))
    return NpuGraph("net", tuple(convs), (x,), convs[-1].outputs, "integer")


def test_layers_of_one_shape_share_a_kernel() -> None:
    graph = _chain(4)
    program = build_program(graph, NPU)
    kernels = {layer.kernel.name for layer in program.layers}
    assert len(program.layers) == 4
    assert len(kernels) == 1
    source = emit_c(program.entry, NPU, "net")
    assert source.count("static void conv2d_") == 1
    values = CaseSource(np.random.default_rng(2)).values(graph.inputs[0])
    check(graph, NPU, [values])


def test_another_schedule_is_another_kernel() -> None:
    graph = _chain(2)
    other = Schedule(tile_h=3, tile_w=12, tile_oc=8, tile_ic=8)
    program = build_program(graph, NPU, {graph.operators[0].name: other})
    assert len({layer.kernel.name for layer in program.layers}) == 2


def test_the_entry_names_the_source_nodes() -> None:
    program = build_program(_chain(2), NPU)
    labels = [segment.label for segment in program.assemble().segments]
    assert labels == ["layer/conv1", "layer/conv3"]


def test_the_arena_is_shared_by_lifetime() -> None:
    graph = _chain(6)
    size = 12 * 12 * 8
    assert place(graph).arena_bytes == 2 * size
    assert place(_chain(1)).arena_bytes == 0


def test_equal_constants_are_stored_once() -> None:
    blob = ConstantBlob()
    ones = np.ones(5, np.int8)
    assert [blob.add(ones), blob.add(np.zeros(70, np.int8)), blob.add(ones.copy())] == [0, 64, 0]
    assert blob.array().nbytes == 64 + 128


def test_an_output_that_is_an_input_is_copied() -> None:
    source = CaseSource(np.random.default_rng(5))
    x = Tensor("x", (1, 3, 4, 5), "int8", SIGNED)
    flat = Tensor("y", (1, 60), "int8", SIGNED)
    reshape = Reshape(name="flatten", inputs=(x,), outputs=(flat,))
    graph = NpuGraph("g", (reshape,), (x,), (flat, x), "integer")
    program = build_program(graph, NPU)
    assert [layer.operator.name for layer in program.layers] == ["y.copy", "x.copy"]
    check(graph, NPU, [source.values(x)])


def test_a_graph_prints_its_operators_and_names() -> None:
    lines = _chain(1).print().splitlines()
    assert lines[0] == "graph net [integer] (x/in:0: int8[1x12x12x8]@0.5+3)"
    assert lines[1].endswith("= conv2d(x/in:0) 3x3 s1x1 p1,1 d1x1  # layer/conv1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: replace(g, inputs=()), "conv1: input 'x/in:0' is not made before use"),
        (lambda g: replace(g, operators=g.operators * 2), "conv1: output 'yconv1' is made twice"),
        (lambda g: replace(g, operators=()), "graph output 'yconv1' is never made"),
    ],
)
def test_a_graph_that_is_not_well_formed_is_refused(change: object, message: str) -> None:
    with pytest.raises(GraphError) as error:
        change(_chain(1)).verify()  # type: ignore[operator]
    assert str(error.value) == message


def test_a_tensor_needs_quantisation_where_it_is_read() -> None:
    with pytest.raises(GraphError) as error:
        quant_of(Tensor("x", (1, 4), "float32"))
    assert str(error.value) == "tensor 'x' has no quantisation: give it QuantParams"
