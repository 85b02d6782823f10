"""Input that no converter expects: TVM's own value, a reason, and never an error of ours."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from runtime_sim.errors import VnpuError
from tests.relay.graphs import conv2d, image, module, requantize, values
from tests.relay.running import both, exact
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.region_names import region_functions

_QUANT = (0.1, 0, 0.2, 0)
_WIDE = np.full((8, 1, 1), 3, "int8")


def _check(mod: tvm.IRModule, words: str, feeds: dict[str, np.ndarray] | None = None) -> None:
    """Check that some operator stays on the CPU for a reason, and that the values are TVM's."""
    with exact():
        reasons = [p.reason for p in explain(mod).placements if p.device == "cpu"]
    assert any(words in reason for reason in reasons), reasons
    _same(mod, feeds)


def _same(mod: tvm.IRModule, feeds: dict[str, np.ndarray] | None = None) -> None:
    if feeds is None:
        types = {str(var.name_hint): var.checked_type for var in mod["main"].params}
        feeds = {n: values(*map(int, t.shape), dtype=str(t.dtype)) for n, t in types.items()}
    expected, result = both(mod, feeds)
    assert [value.shape for value in result] == [value.shape for value in expected]
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def _dense(units: int) -> relay.Expr:
    params = (relay.const(value) for value in (3, 0, 0.05, 0.01))
    return relay.qnn.op.dense(image(1, 16), relay.const(values(units, 16)), *params, units)


def _pool(x: relay.Expr) -> relay.Expr:
    return relay.nn.max_pool2d(x, (2, 2))


# --- values that were wrong ---------------------------------------------------------------------


def test_a_clip_whose_bounds_are_reversed_gives_the_lower_one() -> None:
    x = image(1, 3, 6, 6)
    for body in (relay.clip(x, 5, -5), relay.clip(conv2d(x, 4), 50, -5)):
        mod = module(body)
        with exact():
            assert region_functions(partition_for_vnpu(mod))
        _same(mod)


@pytest.mark.parametrize("clamped", ["input", "requantize", "pool", "dense", "bias"])
def test_constants_that_broadcast_the_tensor_beside_them(clamped: str) -> None:
    x, words = image(1, 1, 4, 4), "a constant must not broadcast the tensor beside it"
    if clamped == "bias":
        sums = relay.add(_dense(1), relay.const(np.arange(8, dtype="int32") * 300))
        _check(module(requantize(sums, 0.0005, 0, 0.3, 1)), words)
    elif clamped == "dense":
        small = requantize(_dense(1), 0.0005, 0, 0.3, 1)
        _same(module(relay.maximum(small, relay.const(_WIDE.reshape(8)))))
    else:
        inner = {"input": x, "requantize": requantize(x, *_QUANT), "pool": _pool(x)}[clamped]
        _check(module(relay.maximum(inner, relay.const(_WIDE))), words)


# --- errors --------------------------------------------------------------------------------------


def test_bounds_that_are_infinite_or_no_numbers() -> None:
    _same(module(relay.clip(_pool(image(1, 3, 4, 4)), -np.inf, np.inf)))
    sides = ((0, 0), (0, 0), (1, 1), (0, 0))
    for body, words in (
        (relay.clip(image(1, 3, 4, 4), float("nan"), 3.0), "the bounds of a clip must be numbers"),
        (relay.nn.pad(image(1, 3, 4, 4), sides, -np.inf), "padding must have one integer value"),
    ):
        (placement,) = explain(module(body)).placements
        assert placement.reason.startswith(words)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "uint32"])
def test_maxima_of_other_types(dtype: str) -> None:
    mod = module(_pool(image(1, 3, 4, 4, dtype=dtype)))
    (placement,) = explain(mod).placements
    assert placement.reason == f"quantised tensors must be int8 or uint8: seen {dtype}"


def test_weights_of_another_type() -> None:
    sums = relay.qnn.op.conv2d(
        image(1, 3, 6, 6), relay.const(values(4, 3, 3, 3, dtype="int16")),
        *map(relay.const, (3, 0, 0.05, 0.01)), kernel_size=(3, 3), channels=4,
    )  # fmt: skip
    _check(module(requantize(sums, 0.0005, 0, 0.3, 1, axis=1)), "int8 or uint8: seen int16")


@pytest.mark.parametrize("zero_points", [(300, 0), (3, -200), (100_000, 0)])
def test_zero_points_outside_of_their_type(zero_points: tuple[int, int]) -> None:
    sums = relay.qnn.op.conv2d(
        image(1, 3, 6, 6), relay.const(values(4, 3, 3, 3)),
        *map(relay.const, (*zero_points, 0.05, 0.01)), kernel_size=(3, 3), channels=4,
        padding=(1, 1),
    )  # fmt: skip
    mod = module(requantize(sums, 0.0005, 0, 0.3, 1, axis=1))
    _check(mod, "zero points must be values of int8: seen")


def test_scalars_stay_on_the_cpu() -> None:
    mod = module(requantize(image(), *_QUANT))
    _check(mod, "tensors must have 2 axes or more", {"x": np.array(-77, "int8")})


def test_dynamic_float_products_are_left_alone() -> None:
    x = image(relay.Any(), 16, dtype="float32")
    weight = relay.const(values(4, 16, dtype="float32"))
    sized = relay.reshape(relay.nn.dense(x, weight, units=4), (-1, 2, 2))
    for body in (relay.nn.dense(x, weight), relay.nn.relu(sized)):
        assert {p.device for p in explain(module(body)).placements} == {"cpu"}


# --- modules that are no plain dataflow ----------------------------------------------------------


def test_a_let_is_its_value() -> None:
    name = relay.var("v")
    mod = module(relay.Let(name, _pool(image(1, 3, 6, 6)), requantize(name, *_QUANT)))
    with exact():
        assert len(region_functions(partition_for_vnpu(mod))) == 1
    _same(mod)


def test_control_flow_stays_on_the_cpu() -> None:
    pooled, condition = _pool(image(1, 3, 6, 6)), relay.var("k", shape=(), dtype="bool")
    mod = module(relay.If(condition, _pool(pooled), requantize(_pool(pooled), *_QUANT)))
    assert not region_functions(partition_for_vnpu(mod))
    reasons = {p.reason for p in explain(mod).placements}
    assert reasons == {"the function main must be plain dataflow, and has an if"}


def test_functions_beside_main_stay_as_they_are() -> None:
    inner, x, helper = image(1, 3, 6, 6, name="v"), image(1, 3, 6, 6), relay.GlobalVar("helper")
    mod = tvm.IRModule({helper: relay.Function([inner], _pool(inner))})
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.Function([x], _pool(relay.Call(helper, [x])))
    mod["lowered"] = tvm.tir.PrimFunc([], tvm.tir.Evaluate(0))
    mod = relay.transform.InferType()(mod)
    parted = partition_for_vnpu(mod)
    assert tvm.ir.structural_equal(parted["helper"], mod["helper"])
    assert tvm.ir.structural_equal(parted["lowered"], mod["lowered"])
    assert len(region_functions(parted)) == 1
    found = [(p.node, p.device, p.reason) for p in explain(mod).placements]
    assert found[0] == ("helper", "cpu", "only the function main is partitioned")
    assert found[1][1] == "npu"


@pytest.mark.parametrize("mod", [tvm.IRModule(), relay.Function([], relay.const(1))])
def test_what_is_no_model(mod: object) -> None:
    with pytest.raises(VnpuError, match=r"no Relay function main|must be a tvm.IRModule"):
        partition_for_vnpu(mod)


def test_parameters_of_another_shape() -> None:
    sides = image(1, 3, 4, 4), image(1, 3, 4, 4, name="b")
    mod = module(relay.maximum(*sides))
    with pytest.raises(VnpuError, match=r"parameter 'b' .* seen int8\(1, 3, 5, 4\)"):
        partition_for_vnpu(mod, {"b": tvm.nd.array(values(1, 3, 5, 4))})


# --- reasons -------------------------------------------------------------------------------------


def test_anchors_without_their_form_say_what_it_is() -> None:
    nine = [image(1, 2, 2, 2, name=f"x{index}") for index in range(9)]
    for body, words in (
        (_dense(4), "a layer must have constant biases, if any, and a qnn.requantize after it"),
        (relay.concatenate(nine, 1), "2 to 8 tensors are joined"),
    ):
        (placement,) = explain(module(body)).placements
        assert placement.reason.startswith(words)


def test_a_softmax_over_more_than_four_axes() -> None:
    params = (relay.const(value) for value in (0.1, 0, 1 / 256, -128))
    mod = module(relay.qnn.op.softmax(image(2, 2, 3, 5, 6), *params, axis=-1))
    _check(mod, "a softmax takes four axes")
