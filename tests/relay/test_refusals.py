"""What the NPU cannot do exactly stays on the CPU, with the reason, and still builds."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from runtime_sim.npu import load
from tests.relay.graphs import conv2d, image, module, requantize, values
from tests.relay.running import both, exact
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.region_names import region_functions


def _reasons(mod: tvm.IRModule, **options: object) -> set[str]:
    with exact():
        return {p.reason for p in explain(mod, **options).placements if p.device == "cpu"}


def _small(scale: float, out_scale: float) -> tvm.IRModule:
    return module(requantize(image(1, 4, 4, 4), scale, 0, out_scale, 0))


def test_computed_scales() -> None:
    scale = relay.var("s", shape=(), dtype="float32")
    mod = module(
        relay.qnn.op.dequantize(
            relay.nn.max_pool2d(image(1, 4, 4, 4), (2, 2)), scale, relay.const(0)
        )
    )
    assert _reasons(mod) == {"quantisation scales must be constant"}


def test_dynamic_shapes() -> None:
    mod = module(relay.nn.max_pool2d(image(1, 3, relay.Any(), 8), (2, 2)))
    (reason,) = _reasons(mod)
    assert reason.startswith("shapes must be static")


def test_wide_types() -> None:
    mod = module(relay.nn.max_pool2d(image(1, 3, 8, 8, dtype="int16"), (2, 2)))
    assert _reasons(mod) == {"quantised tensors must be int8 or uint8: seen int16"}


def test_zero_points_per_channel_where_the_chip_lacks_them() -> None:
    sums = relay.qnn.op.conv2d(
        image(1, 3, 8, 8), relay.const(values(2, 3, 3, 3)), relay.const(3),
        relay.const(np.array([1, 2], "int32")), relay.const(0.05),
        relay.const(np.array([0.01, 0.02], "float32")), kernel_size=(3, 3), channels=2,
    )  # fmt: skip
    scales = np.float32(0.05) * np.array([0.01, 0.02], "float32")
    mod = module(
        relay.qnn.op.requantize(
            sums, relay.const(scales), relay.const(0), relay.const(0.3), relay.const(1), axis=1
        )
    )
    text = load("vnpu-256").to_json().replace(
        '"per_channel_zero_points":true', '"per_channel_zero_points":false'
    )  # fmt: skip
    from runtime_sim.npu import from_json

    (reason,) = _reasons(mod, npu=from_json(text))
    assert "a zero point per channel" in reason
    assert _reasons(mod) == set()
    expected, result = both(mod, {"x": values(1, 3, 8, 8)})
    np.testing.assert_array_equal(result[0], expected[0])


def test_float_requantisation_adds_the_zero_point_before_it_rounds() -> None:
    mod = module(conv2d(image(1, 3, 8, 8), 4))
    with relay.qnn.op.requantize_config(compute_dtype="float32"):
        assert not region_functions(partition_for_vnpu(mod))
        (reason,) = {p.reason for p in explain(mod).placements}
    assert reason.startswith("requantisation must compute in int64")


@pytest.mark.parametrize(
    ("scale", "out_scale", "words"),
    [
        (2.0**20, 1e-3, "scaled values must fit int32"),
        (1e-12, 1.0, "the multiplier must not be below 2^-32"),
        (0.0, 1.0, "quantisation scales must be above 0"),
    ],
)
def test_ratios_that_tvm_itself_gets_wrong(scale: float, out_scale: float, words: str) -> None:
    (reason,) = _reasons(_small(scale, out_scale))
    assert reason.startswith(words)


def test_an_average_that_does_not_count_its_padding() -> None:
    wide = relay.cast(image(1, 3, 6, 6), "int32")
    pooled = relay.nn.avg_pool2d(wide, (3, 3), padding=(1, 1))
    mod = module(relay.cast(pooled, "int8"))
    words = "all windows of an average must count equally many elements"
    assert any(reason.startswith(words) for reason in _reasons(mod))
    expected, result = both(mod, {"x": values(1, 3, 6, 6)})
    np.testing.assert_array_equal(result[0], expected[0])


def test_batches_that_differ_do_not_meet_in_a_region() -> None:
    a, b = image(4, 3, 2, 2, name="a"), image(1, 3, 2, 2, name="b")
    params = (0.3, -7, 0.3, -7, 0.4, 1)
    mod = module(relay.qnn.op.add(a, b, *map(relay.const, params)))
    (reason,) = _reasons(mod)
    assert reason.startswith("all tensors must have one batch")
    feeds = {"a": values(4, 3, 2, 2), "b": values(1, 3, 2, 2, seed=1)}
    expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])
