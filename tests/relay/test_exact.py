"""Regions equal TVM's own CPU build of the same graph, on drawn QNN graphs, value for value."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay.graphs import conv2d, image, module, requantize, values
from tests.relay.qnn_graphs import draw_graph
from tests.relay.running import both, exact
from tvm_vnpu.relay import partition_for_vnpu
from tvm_vnpu.relay.region_names import region_functions

BLOCK = 8
BLOCKS = 25


@pytest.mark.parametrize("block", range(BLOCKS))
def test_drawn_graphs_equal_the_cpu_build(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        graph = draw_graph(seed)
        expected, result = both(graph.mod, graph.feeds, graph.rounding)
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"seed {seed}: {graph.operators}")


def test_drawn_graphs_reach_the_npu() -> None:
    graphs = [draw_graph(seed) for seed in range(24)]
    with exact():
        found = [len(region_functions(partition_for_vnpu(graph.mod))) for graph in graphs]
    assert sum(count > 0 for count in found) >= 23


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
@pytest.mark.parametrize("scale", [0.5, 2.0, 0.125, 1.0, 0.37, 3.1])
def test_requantize_rounds_as_configured(rounding: str, scale: float) -> None:
    every = np.arange(-128, 128, dtype="int8").reshape(1, 16, 4, 4)
    mod = module(requantize(image(1, 16, 4, 4), scale, 5, 1.0, -3))
    expected, result = both(mod, {"x": every}, rounding)
    np.testing.assert_array_equal(result[0], expected[0])


def test_an_operator_may_say_its_own_rounding() -> None:
    mods = [
        module(requantize(image(1, 4, 8, 8), 0.5, 0, 1.0, 0, rounding=rounding))
        for rounding in ("UPWARD", "TONEAREST")
    ]
    feeds = {"x": values(1, 4, 8, 8)}
    results = []
    for mod in mods:
        expected, result = both(mod, feeds, "UPWARD")
        np.testing.assert_array_equal(result[0], expected[0])
        results.append(result[0])
    assert not np.array_equal(*results)


def test_a_batch_runs_image_by_image() -> None:
    mod = module(conv2d(image(4, 3, 6, 6), 5))
    expected, result = both(mod, {"x": values(4, 3, 6, 6)})
    np.testing.assert_array_equal(result[0], expected[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_transposition_between_layouts_joins_the_region(layout: str) -> None:
    axes = (0, 2, 3, 1) if layout == "NCHW" else (0, 3, 1, 2)
    shape = (1, 3, 4, 5) if layout == "NCHW" else (1, 4, 5, 3)
    pooled = relay.nn.max_pool2d(image(*shape), (2, 2), layout=layout)
    mod = module(relay.transpose(pooled, axes))
    expected, result = both(mod, {"x": values(*shape)})
    np.testing.assert_array_equal(result[0], expected[0])
