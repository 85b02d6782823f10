"""Operators of one tensor on all 256 values, and softmax: equal to TVM's own CPU build."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

from runtime_sim.npu import NpuConfig, load
from tests.relay.graphs import conv2d, image, module, values
from tests.relay.running import both, exact, on_cpu, run
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.lookup_tables import FUNCTIONS
from tvm_vnpu.relay.ops import lookup
from tvm_vnpu.relay.region_names import region_functions

EVERY = np.arange(256, dtype=np.uint8)
QUANTS = [(0.05, 3, 1 / 256, -128), (0.031, -128, 0.02, 0), (0.9, 127, 0.11, 9)]
"""Input scale and zero point, output scale and zero point; zero points are those of int8."""
_MIDDLE = {"int8": 0, "uint8": 128}
_NAMES = ["data", "scale", "zero_point", "output_scale", "output_zero_point"]


def _constants(quant: tuple[float, int, float, int], dtype: str) -> list[relay.Constant]:
    middle = _MIDDLE[dtype]
    shifted = (quant[0], quant[1] + middle, quant[2], quant[3] + middle)
    return [relay.const(value) for value in shifted]


def _inputs() -> dict[str, np.ndarray]:
    return {dtype: EVERY.view(dtype).reshape(1, 16, 4, 4) for dtype in _MIDDLE}


def _images() -> dict[str, relay.Var]:
    return {dtype: image(1, 16, 4, 4, dtype=dtype, name=dtype) for dtype in _MIDDLE}


def _check(outputs: list[relay.Expr], feeds: dict, rounding: str = "UPWARD") -> tvm.IRModule:
    """Compare all outputs, each an operator on the NPU."""
    mod = module(relay.Tuple(outputs))
    expected, result = both(mod, feeds, rounding)
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with exact(rounding):
        assert explain(mod).cpu_share == 0
    return mod


def test_every_unary_operator_of_tvm_has_a_table() -> None:
    found = set()
    for name in map(str, tvm.ir.Op.list_op_names()):
        op = tvm.ir.Op.get(name)
        if name.startswith("qnn.") and [str(a.name) for a in op.arguments] == _NAMES:
            found.add(name)
    assert found - {lookup.SOFTMAX} == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unary_operators(name: str) -> None:
    make = getattr(relay.qnn.op, name.removeprefix("qnn."))
    outputs = [
        make(x, *_constants(quant, dtype)) for dtype, x in _images().items() for quant in QUANTS
    ]
    _check(outputs, _inputs())


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_leaky_relu(rounding: str) -> None:
    images = _images()
    cases = zip(
        [*QUANTS, (0.05, 3, 0.05, 3), (0.05, 3, 0.05, -3), (0.5, 0, 0.25, 0)],
        (0.1, 0.5, 0.9, 0.017, 0.25, 0.75), strict=True,
    )  # fmt: skip
    outputs = [
        relay.qnn.op.leaky_relu(x, alpha, *_constants(quant, dtype))
        for quant, alpha in cases for dtype, x in images.items()
    ]  # fmt: skip
    _check(outputs, _inputs(), rounding)


def test_a_leaky_relu_without_slope_which_tvm_cannot_build() -> None:
    x = image(1, 16, 4, 4, name="int8")
    mod = module(relay.qnn.op.leaky_relu(x, 0.0, *map(relay.const, (1.0, 0, 1.0, 0))))
    with exact():
        with pytest.raises(tvm.TVMError, match="Shift amount must be non-negative"):
            on_cpu(mod, _inputs())
        (result,) = run(partition_for_vnpu(mod), {"int8": _inputs()["int8"]})
    np.testing.assert_array_equal(result.reshape(-1), np.maximum(EVERY.view("int8"), 0))


def test_clamps_join_the_table() -> None:
    x = image(1, 16, 4, 4, name="int8")
    clamped = relay.clip(relay.qnn.op.tanh(x, *_constants(QUANTS[0], "int8")), -100, 60)
    mod = _check([clamped], {"int8": _inputs()["int8"]})
    (region,) = region_functions(partition_for_vnpu(mod)).values()
    assert len(region.body.fields if isinstance(region.body, relay.Tuple) else [region.body]) == 1


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_softmax_along_the_channels(rounding: str) -> None:
    feeds = {"a": values(1, 10), "b": values(3, 7, 4, 5, seed=1), "c": values(1, 6, 5, 30, seed=2)}
    feeds["b"][0, :, 0, 0], feeds["b"][0, 1:, 0, 1], feeds["b"][0, 0, 0, 1] = 9, -128, 127
    shapes = {name: image(*data.shape, name=name) for name, data in feeds.items()}
    axes = {"a": (1, -1), "b": (1,), "c": (1, 3)}
    outs = ((1 / 256, -128), (0.0091, 3))
    scales = (0.02, 0.4, 0.1, 1 / 18, 1 / 3.5, 1.0, 0.001)
    cases = [(scale, outs[number % 2]) for number, scale in enumerate(scales)]
    for name, x in shapes.items():
        outputs = [
            relay.qnn.op.softmax(x, *map(relay.const, (scale, 4, *out)), axis=axis)
            for axis in axes[name]
            for scale, out in cases
        ]
        _check(outputs, {name: feeds[name]}, rounding)


def _reasons(body: relay.Expr, npu: str | NpuConfig = "vnpu-256") -> set[str]:
    with exact():
        placements = explain(module(body), npu=npu).placements
    return {p.reason for p in placements if p.device == "cpu"}


def _softmax(shape: tuple[int, ...], axis: int, scale: float = 0.1) -> relay.Expr:
    constants = map(relay.const, (scale, 0, 1 / 256, -128))
    return relay.qnn.op.softmax(image(*shape), *constants, axis=axis)


@pytest.mark.parametrize(
    ("shape", "axis", "scale", "reason"),
    [
        ((1, 3, 4, 5), 2, 0.1, "a softmax must run along the channels: the last axis, or axis 1 of "
         "4: seen axis 2 of 4"),
        ((4, 5), 0, 0.1, "a softmax must run along the channels: the last axis, or axis 1 of 4: "
         "seen axis 0 of 2"),
        ((1, 1000), 1, 0.1, "The sums of a shiftmax must be above 0 and fit int32, whatever the "
         "values (seen 1000 channels of scale 1/10)"),
    ],
)  # fmt: skip
def test_a_softmax_that_stays(shape: tuple[int, ...], axis: int, scale: float, reason: str) -> None:
    body = _softmax(shape, axis, scale)
    assert _reasons(body) == {reason}
    expected, result = both(module(body), {"x": values(*shape)})
    np.testing.assert_array_equal(result[0], expected[0])


def test_a_softmax_whose_sums_fit_goes_to_the_npu() -> None:
    _check([_softmax((1, 1000), 1, 0.01)], {"x": values(1, 1000)})


def test_an_npu_without_a_look_up_unit_leaves_tables_to_the_cpu() -> None:
    npu = load("vnpu-256")
    without = replace(npu, capabilities=replace(npu.capabilities, lut_unit=False))
    body = relay.qnn.op.tanh(image(1, 3, 4, 4), *_constants(QUANTS[0], "int8"))
    assert _reasons(body) == set()
    assert _reasons(body, without) == {
        "Looking up needs an NPU with a look-up unit (seen vnpu-256 without one)"
    }


def test_computed_scales_and_steep_slopes_stay() -> None:
    scale = relay.var("s", shape=(), dtype="float32")
    rest = [relay.const(value) for value in (0, 0.1, 0)]
    assert _reasons(relay.qnn.op.exp(image(1, 8), scale, *rest)) == {
        "quantisation scales must be constant"
    }
    steep = relay.qnn.op.leaky_relu(image(1, 8), 1.5, relay.const(0.1), *rest)
    assert _reasons(steep) == {"the slope of a leaky relu must be 0 to 1: seen 1.5"}


def test_float_functions_between_conversions_become_tables() -> None:
    scale, zero = relay.const(0.05), relay.const(3)
    hidden = relay.qnn.op.dequantize(
        conv2d(image(1, 3, 6, 6), 4), relay.const(0.3), relay.const(-7)
    )
    body = relay.qnn.op.quantize(relay.sigmoid(hidden), scale, zero)
    mod = module(body)
    with exact():
        (region,) = region_functions(partition_for_vnpu(mod)).values()
        assert explain(mod).cpu_share == 0
    assert len(region.params) == 1


def test_other_profiles_round_half_to_even() -> None:
    x = image(1, 16, 4, 4, name="int8")
    outputs = [
        relay.qnn.op.abs(x, *map(relay.const, (0.5, 0, 1.0, 0))),
        relay.qnn.op.leaky_relu(x, 0.5, *map(relay.const, (1.0, 0, 1.0, 0))),
    ]
    mod = module(relay.Tuple(outputs))
    assert explain(mod, rounding="onnx").cpu_share == 0
    partitioned = partition_for_vnpu(mod, rounding="onnx")
    raw = EVERY.view("int8").astype(np.float64)
    results = [r.reshape(-1) for r in run(partitioned, {"int8": _inputs()["int8"]})]
    np.testing.assert_array_equal(results[0], np.rint(np.abs(raw) / 2))
    np.testing.assert_array_equal(results[1], np.rint(np.where(raw < 0, raw / 2, raw)))
