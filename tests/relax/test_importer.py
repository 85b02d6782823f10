"""The ONNX importer: values as onnxruntime's, operators in the form the patterns match."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relax

from tests.relax.onnx_models import make_model, random_values, run_module
from tvm_vnpu.relax.importer import from_onnx
from tvm_vnpu.relax.rewrite import bindings_of

W = random_values(4, 3, 3, 3, seed=1)
B = random_values(4, seed=2)
X = {"x": [1, 3, 7, 6]}


def operators(mod: tvm.IRModule) -> list[str]:
    """Return the operator names of `main` in order; call_tir as `tir`."""
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, tvm.ir.Call)]
    return [str(call.op.name).removeprefix("relax.").replace("call_tir", "tir") for call in calls]


def check(model: onnx.ModelProto, expected: list[str], **feeds: np.ndarray) -> tvm.IRModule:
    """Check the operators a model imports as, and its values against onnxruntime."""
    mod = from_onnx(model)
    assert operators(mod) == expected
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for got, want in zip(run_module(mod, feeds), session.run(None, feeds)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return mod


def node(kind: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    """Return a node that makes `y`."""
    return helper.make_node(kind, list(inputs), ["y"], name="n", **attributes)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_auto_pad_of_convolution_becomes_explicit(mode: str, stride: int) -> None:
    conv = node("Conv", "x", "w", "b", auto_pad=mode, strides=[stride, stride], dilations=[1, 1])
    model = make_model([conv], X, ["y"], {"w": W, "b": B})
    check(model, ["nn.conv2d", "reshape", "add"], x=random_values(1, 3, 7, 6))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_auto_pad_of_pooling_becomes_explicit(kind: str, mode: str) -> None:
    pool = node(kind, "x", auto_pad=mode, kernel_shape=[3, 2], strides=[2, 2])
    expected = "nn.max_pool2d" if kind == "MaxPool" else "nn.avg_pool2d"
    check(make_model([pool], X, ["y"]), [expected], x=random_values(1, 3, 7, 6))


@pytest.mark.parametrize("attributes", [{"count_include_pad": 1}, {"ceil_mode": 1}])
def test_average_pool_keeps_its_attributes(attributes: dict[str, int]) -> None:
    pool = node("AveragePool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, **attributes)
    mod = check(make_model([pool], X, ["y"]), ["nn.avg_pool2d"], x=random_values(1, 3, 7, 6))
    attrs = bindings_of(mod["main"])[0].value.attrs
    assert bool(attrs.ceil_mode) == bool(attributes.get("ceil_mode"))
    assert bool(attrs.count_include_pad) == bool(attributes.get("count_include_pad"))


@pytest.mark.parametrize(
    ("opset", "attributes", "bounds", "expected"),
    [
        (6, {"min": 0.0, "max": 6.0}, {}, "clip"),
        (6, {"min": -1.0}, {}, "maximum"),
        (6, {"max": 0.5}, {}, "minimum"),
        (13, {}, {"lo": 0.0, "hi": 6.0}, "clip"),
        (13, {}, {"lo": -0.5, "hi": 0.5}, "clip"),
        (13, {}, {"lo": 0.0}, "nn.relu"),
        (13, {}, {"lo": 0.75, "hi": -0.25}, "clip"),
    ],
)
def test_clip_with_constant_bounds(
    opset: int, attributes: dict[str, float], bounds: dict[str, float], expected: str
) -> None:
    clip = node("Clip", "x", *bounds, **attributes)
    constants = {name: np.array(value, np.float32) for name, value in bounds.items()}
    model = make_model([clip], X, ["y"], constants, opset)
    check(model, [expected], x=random_values(1, 3, 7, 6))


def test_clip_bounds_from_constant_nodes() -> None:
    low = helper.make_node("Constant", [], ["lo"], value=numpy_helper.from_array(np.float32(0)))
    high = helper.make_node("Constant", [], ["hi"], value_float=6.0)
    model = make_model([low, high, node("Clip", "x", "lo", "hi")], X, ["y"])
    check(model, ["clip"], x=random_values(1, 3, 7, 6) * 5)


def test_relu_then_min_is_a_clip() -> None:
    relu = helper.make_node("Relu", ["x"], ["r"])
    model = make_model([relu, node("Min", "r", "six")], X, ["y"], {"six": np.float32(6)})
    check(model, ["clip"], x=random_values(1, 3, 7, 6) * 5)


def test_min_of_a_relu_that_is_read_elsewhere_keeps_the_relu() -> None:
    relu = helper.make_node("Relu", ["x"], ["r"])
    model = make_model([relu, node("Min", "r", "six")], X, ["y", "r"], {"six": np.float32(6)})
    check(model, ["nn.relu", "clip"], x=random_values(1, 3, 7, 6) * 5)


def test_max_with_a_constant() -> None:
    model = make_model([node("Max", "low", "x")], X, ["y"], {"low": np.float32(0.25)})
    check(model, ["maximum"], x=random_values(1, 3, 7, 6))


def test_sum_is_additions() -> None:
    model = make_model([node("Sum", "x", "x", "x")], X, ["y"])
    check(model, ["add", "add"], x=random_values(1, 3, 7, 6))


def test_sum_of_two_is_one_addition() -> None:
    check(make_model([node("Sum", "x", "x")], X, ["y"]), ["add"], x=random_values(1, 3, 7, 6))


def test_global_average_pool_is_a_mean() -> None:
    check(
        make_model([node("GlobalAveragePool", "x")], X, ["y"]),
        ["mean"],
        x=random_values(1, 3, 7, 6),
    )


def test_convolution_takes_over_a_pad_of_zeros() -> None:
    pad = helper.make_node("Pad", ["x", "pads"], ["p"])
    pads = np.array([0, 0, 0, 1, 0, 0, 1, 2])
    model = make_model(
        [pad, node("Conv", "p", "w", pads=[1, 0, 0, 0])], X, ["y"], {"w": W, "pads": pads}
    )
    mod = check(model, ["nn.conv2d"], x=random_values(1, 3, 7, 6))
    assert [int(p) for p in bindings_of(mod["main"])[0].value.attrs.padding] == [1, 1, 1, 2]


def test_convolution_does_not_take_over_a_pad_of_ones() -> None:
    pad = helper.make_node("Pad", ["x", "pads", "one"], ["p"])
    constants = {"w": W, "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "one": np.float32(1)}
    model = make_model([pad, node("Conv", "p", "w")], X, ["y"], constants)
    check(model, ["tir", "nn.conv2d"], x=random_values(1, 3, 7, 6))


def test_dense_weight_is_transposed_at_import() -> None:
    weight, bias = random_values(5, 3, seed=3), random_values(5, seed=4)
    model = make_model(
        [node("Gemm", "x", "w", "b", transB=1)], {"x": [2, 3]}, ["y"], {"w": weight, "b": bias}
    )
    check(model, ["matmul", "add"], x=random_values(2, 3))


def test_integer_weights_stay_integer_when_transposed() -> None:
    weight = np.arange(-10, 5, dtype=np.int8).reshape(5, 3)
    scales, zeros = np.linspace(0.1, 0.5, 5, dtype=np.float32), np.zeros(5, np.int8)
    dequantize = helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0)
    model = make_model(
        [dequantize, node("Gemm", "x", "wf", transB=1)], {"x": [2, 3]}, ["y"],
        {"w": weight, "s": scales, "z": zeros},
    )  # fmt: skip
    mod = check(model, ["dequantize", "matmul"], x=random_values(2, 3))
    call = bindings_of(mod["main"])[0].value
    np.testing.assert_array_equal(call.args[0].value.numpy(), weight.T)
    assert int(call.attrs.axis) == 1


def test_constant_subgraphs_are_folded() -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
        helper.make_node("Mul", ["wt", "two"], ["w2"]),
        node("MatMul", "x", "w2"),
    ]
    constants = {"w": random_values(5, 3, seed=3), "two": np.float32(2)}
    check(make_model(nodes, {"x": [2, 3]}, ["y"], constants), ["matmul"], x=random_values(2, 3))


def test_batch_normalisation_imports_as_one_operator() -> None:
    constants = {
        "g": random_values(3, seed=1), "b": random_values(3, seed=2),
        "m": random_values(3, seed=3), "v": np.abs(random_values(3, seed=4)) + 0.1,
    }  # fmt: skip
    model = make_model([node("BatchNormalization", "x", "g", "b", "m", "v")], X, ["y"], constants)
    check(model, ["nn.batch_norm"], x=random_values(1, 3, 7, 6))


def test_flatten_and_reshape_with_a_symbolic_batch() -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], axis=1),
        helper.make_node("Reshape", ["f", "shape"], ["y"]),
    ]
    model = make_model(nodes, {"x": ["N", 2, 3]}, ["y"], {"shape": np.array([-1, 3, 2])})
    mod = from_onnx(model)
    for batch in (1, 4):
        x = random_values(batch, 2, 3)
        np.testing.assert_array_equal(run_module(mod, {"x": x})[0], x.reshape(batch, 3, 2))


def test_split_has_one_name_and_all_outputs() -> None:
    split = helper.make_node("Split", ["x"], ["a", "b"], name="cut", axis=1)
    model = make_model([split], {"x": [2, 4]}, ["b", "a"])
    x = random_values(2, 4)
    b, a = run_module(from_onnx(model), {"x": x})
    np.testing.assert_array_equal(np.concatenate([a, b], axis=1), x)


def test_output_that_is_an_input_imports() -> None:
    mod = from_onnx(make_model([node("Identity", "x")], {"x": [2, 2]}, ["y"]))
    assert isinstance(mod["main"], relax.Function)
    x = random_values(2, 2)
    np.testing.assert_array_equal(run_module(mod, {"x": x})[0], x)


@pytest.mark.parametrize(("scale", "zero_point"), [([0.5], [3]), ([0.5, 0.25, 2.0], [0, 1, -5])])
def test_constant_weights_are_quantised_at_import(scale: list, zero_point: list) -> None:
    constants = {
        "w": random_values(4, 3, seed=9) * 50, "s": np.float32(scale).squeeze(),
        "z": np.int8(zero_point).squeeze(),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("MatMul", "x", "d"),
    ]
    model = make_model(nodes, {"x": [2, 4]}, ["y"], constants)
    mod = check(model, ["dequantize", "matmul"], x=random_values(2, 4))
    assert str(bindings_of(mod["main"])[0].value.args[0].value.dtype) == "int8"


def test_reshape_by_the_shape_of_a_symbolic_batch() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "first"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axis"], ["u"]),
        helper.make_node("Concat", ["u", "rest"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"], name="flat"),
    ]
    constants = {"first": np.int64(0), "axis": np.array([0]), "rest": np.array([-1])}
    mod = from_onnx(make_model(nodes, {"x": ["N", 3, 2]}, ["y"], constants))
    assert operators(mod) == ["reshape"]
    x = random_values(4, 3, 2)
    np.testing.assert_array_equal(run_module(mod, {"x": x})[0], x.reshape(4, 6))
