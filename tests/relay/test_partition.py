"""TVM's idioms for third-party targets: composites, regions, constants, borders."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.op.contrib import get_pattern_table

from runtime_sim.errors import VnpuError
from tests.relay.graphs import conv2d, image, module, requantize, values
from tests.relay.running import both, build, exact, execute, on_cpu
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.build_graph import composite_calls, composite_name
from tvm_vnpu.relay.region_names import region_functions


def _partitioned(mod: tvm.IRModule, **options: object) -> tvm.IRModule:
    with exact():
        return partition_for_vnpu(mod, **options)


def _composites(mod: tvm.IRModule) -> list[list[str]]:
    regions = region_functions(mod).values()
    return [[composite_name(call) for call in composite_calls(f)] for f in regions]


def _add(a: relay.Expr, b: relay.Expr) -> relay.Expr:
    params = (0.3, -7, 0.3, -7, 0.4, 1)
    return relay.qnn.op.add(a, b, *map(relay.const, params))


def test_composites_have_the_names_of_the_pattern_table() -> None:
    hidden = conv2d(image(1, 3, 8, 8), 4)
    mod = module(relay.nn.max_pool2d(relay.clip(_add(hidden, hidden), 0, 90), (2, 2)))
    expected = ["vnpu.conv2d", "vnpu.eltwise", "vnpu.max_pool2d"]
    assert _composites(_partitioned(mod)) == [expected]


def test_partition_is_idempotent() -> None:
    once = _partitioned(
        module(relay.nn.softmax(relay.cast(conv2d(image(1, 3, 8, 8), 4), "float32")))
    )
    tvm.ir.assert_structural_equal(once, _partitioned(once))


def test_constants_are_bound_and_parameters_too() -> None:
    weight = relay.var("w", shape=(4, 8), dtype="int8")
    sums = relay.qnn.op.dense(image(1, 8), weight, *map(relay.const, (3, 0, 0.1, 0.02)), units=4)
    mod = module(requantize(sums, float(np.float32(0.1) * np.float32(0.02)), 0, 0.5, 0))
    (computed,) = region_functions(_partitioned(mod)).values()
    assert len(computed.params) == 2  # a product of two activations
    params = {"w": tvm.nd.array(values(4, 8, seed=2))}
    partitioned = _partitioned(mod, params=params)
    (region,) = region_functions(partitioned).values()
    assert len(region.params) == len(partitioned["main"].params) == 1
    with exact():
        bound = relay.build_module.bind_params_by_name(mod["main"], params)
        expected = on_cpu(tvm.IRModule.from_expr(bound), {"x": values(1, 8)})
        result = execute(build(partitioned), {"x": values(1, 8)})
    np.testing.assert_array_equal(result[0], expected[0])


def _through_the_cpu() -> tvm.IRModule:
    """Return region, CPU operator, region."""
    reversed_ = relay.reverse(conv2d(image(1, 3, 8, 8), 3), axis=3)
    return module(conv2d(reversed_, 4, x_scale=0.3, x_zero_point=-7))


def test_several_regions_and_one_fed_by_a_cpu_operator() -> None:
    mod = _through_the_cpu()
    assert len(_composites(_partitioned(mod))) == 2
    expected, result = both(mod, {"x": values(1, 3, 8, 8)})
    np.testing.assert_array_equal(result[0], expected[0])


def test_a_region_may_have_several_outputs() -> None:
    hidden = conv2d(image(1, 3, 8, 8), 4)
    mod = module(relay.Tuple([hidden, relay.nn.max_pool2d(hidden, (2, 2))]))
    assert len(_composites(_partitioned(mod))) == 1
    expected, result = both(mod, {"x": values(1, 3, 8, 8)})
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_borders_join_only_beside_an_operator() -> None:
    quantized = relay.qnn.op.quantize(
        image(1, 3, 8, 8, dtype="float32"), relay.const(0.05), relay.const(3)
    )
    lone = relay.qnn.op.dequantize(quantized, relay.const(0.05), relay.const(3))
    assert not _composites(_partitioned(module(lone)))
    mod = module(relay.qnn.op.dequantize(conv2d(quantized, 4), relay.const(0.3), relay.const(-7)))
    assert _composites(_partitioned(mod)) == [["vnpu.quantize", "vnpu.conv2d", "vnpu.dequantize"]]


def test_the_pattern_table_serves_tvms_own_passes() -> None:
    mod = module(conv2d(image(1, 3, 8, 8), 4))
    with exact():
        table = get_pattern_table("vnpu")
        passes = [
            relay.transform.MergeComposite(table), relay.transform.AnnotateTarget("vnpu"),
            relay.transform.MergeCompilerRegions(), relay.transform.PartitionGraph(),
            relay.transform.InferType(),
        ]  # fmt: skip
        partitioned = tvm.transform.Sequential(passes)(mod)
        result = execute(build(partitioned), {"x": values(1, 3, 8, 8)})
        expected = on_cpu(mod, {"x": values(1, 3, 8, 8)})
    np.testing.assert_array_equal(result[0], expected[0])


def test_qnn_operators_left_over_build_on_the_cpu() -> None:
    data, weights = image(1, 3, 8, 8), image(4, 3, 3, 3, name="w")
    sums = relay.qnn.op.conv2d(
        data, weights, *map(relay.const, (3, 0, 0.05, 0.01)), kernel_size=(3, 3), channels=4
    )
    left = requantize(sums, float(np.float32(0.05) * np.float32(0.01)), 0, 0.3, -7, axis=1)
    mod = module(relay.nn.max_pool2d(left, (2, 2)))
    feeds = {"x": values(1, 3, 8, 8), "w": values(4, 3, 3, 3, seed=3)}
    expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])


def test_explain_says_where_and_why() -> None:
    with exact():
        explanation = explain(_through_the_cpu())
    rows = [(p.operator, p.device, p.region, p.reason) for p in explanation.placements]
    assert rows == [
        ("vnpu.conv2d", "npu", "region0", ""),
        ("reverse", "cpu", "", "the NPU has no pattern for reverse"),
        ("vnpu.conv2d", "npu", "region1", ""),
    ]
    assert explanation.cpu_share == pytest.approx(1 / 3)


def test_unknown_npu_and_profile_are_refused() -> None:
    mod = module(conv2d(image(1, 3, 8, 8), 4))
    with pytest.raises(VnpuError, match="unknown rounding profile 'banker'"):
        partition_for_vnpu(mod, rounding="banker")
    with pytest.raises(VnpuError):
        partition_for_vnpu(mod, npu="vnpu-13")
