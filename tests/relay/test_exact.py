"""Regions equal TVM's own CPU build of the same graph, on drawn QNN graphs, value for value."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay.graphs import conv2d, image, module, requantize, values
from tests.relay.qnn_graphs import draw_graph
from tests.relay.running import both, exact, on_cpu, run
from tvm_vnpu.relay import partition_for_vnpu
from tvm_vnpu.relay.region_names import region_functions

BLOCK = 8
BLOCKS = 8


@pytest.mark.parametrize("block", range(BLOCKS))
def test_drawn_graphs_reach_the_npu_and_equal_the_cpu_build(block: int) -> None:
    reached = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        graph = draw_graph(seed)
        with exact(graph.rounding):
            partitioned = partition_for_vnpu(graph.mod)
            result = run(partitioned, graph.feeds)
            expected = on_cpu(graph.mod, graph.feeds)
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=f"seed {seed}: {graph.operators}")
        reached += bool(region_functions(partitioned))
    assert reached >= BLOCK - 1


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_requantize_rounds_as_configured(rounding: str) -> None:
    every = np.arange(-128, 128, dtype="int8").reshape(1, 16, 4, 4)
    x = image(1, 16, 4, 4)
    scales = (0.5, 2.0, 0.125, 1.0, 0.37, 3.1)
    mod = module(relay.Tuple([requantize(x, scale, 5, 1.0, -3) for scale in scales]))
    expected, result = both(mod, {"x": every}, rounding)
    for scale, ours, theirs in zip(scales, result, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=f"scale {scale}")


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
