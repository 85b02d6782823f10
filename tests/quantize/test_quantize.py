"""The quantiser end to end: values near the float model, the graph in the form patterns match."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from runtime_sim.npu import Capabilities, NpuConfig
from tests.relax.onnx_models import make_model, random_values, run_module
from tvm_vnpu.quantize import quantize, quantize_uncalibrated
from tvm_vnpu.quantize.fold_batch_norm import FoldBatchNorm
from tvm_vnpu.relax.importer import from_onnx
from tvm_vnpu.relax.names import call_name, input_names, output_names, profile
from tvm_vnpu.relax.rewrite import bindings_of, is_call

W, B = random_values(4, 3, 3, 3, seed=1), random_values(4, seed=2)
X = {"x": [1, 3, 8, 8]}
CONV = helper.make_node("Conv", ["x", "w", "b"], ["c"], name="/conv")


def calls(mod: tvm.IRModule) -> list[tvm.ir.Call]:
    """Return the calls of `main` in order."""
    return [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, tvm.ir.Call)]


def operators(mod: tvm.IRModule) -> str:
    """Return the operators of `main`: Q and D for quantize and dequantize, d for constants."""
    short = {"relax.quantize": "Q", "relax.dequantize": "D"}
    names = []
    for call in calls(mod):
        constant = isinstance(call.args[0], tvm.ir.GenericConst)
        name = "d" if is_call(call, "relax.dequantize") and constant else str(call.op.name)
        names.append(short.get(name, name.rsplit(".", 1)[-1]))
    return " ".join(names)


def activation_params(mod: tvm.IRModule) -> dict[str, tuple[float, int]]:
    """Return node name -> (scale, zero point) of every quantize."""
    return {
        call_name(call): (float(call.args[1].value.numpy()), int(call.args[2].value.numpy()))
        for call in calls(mod)
        if is_call(call, "relax.quantize")
    }


def quantised(
    nodes: list[onnx.NodeProto], inputs: dict, outputs: list[str], tolerance: float, **constants
) -> tvm.IRModule:
    """Quantise a model on random data and check it against the float one, relative to its peak."""
    mod = from_onnx(make_model(nodes, inputs, outputs, constants))
    batches = [
        {name: random_values(*shape, seed=seed + 7) for name, shape in inputs.items()}
        for seed in range(4)
    ]
    result = quantize(mod, batches)
    for batch in batches:
        for got, want in zip(run_module(result, batch), run_module(mod, batch)):
            assert np.abs(got - want).max() <= tolerance * np.abs(want).max()
    return result


def test_convolution_with_bias() -> None:
    mod = quantised([CONV], X, ["c"], 0.02, w=W, b=B)
    assert operators(mod) == "Q D d conv2d d reshape add Q D"
    weight, bias = calls(mod)[2], calls(mod)[4]
    assert str(weight.args[0].value.dtype) == "int8" and int(weight.attrs.axis) == 0
    assert str(bias.args[0].value.dtype) == "int32" and int(bias.attrs.axis) == 0
    assert weight.args[1].value.shape == (4,)


def test_relu_folds_into_the_convolution_before_it() -> None:
    relu = helper.make_node("Relu", ["c"], ["y"], name="/relu")
    mod = quantised([CONV, relu], X, ["y"], 0.02, w=W, b=B)
    assert operators(mod) == "Q D d conv2d d reshape add relu Q D"
    assert activation_params(mod)["/relu_QuantizeLinear"][1] == -128


def test_relu_of_a_convolution_that_is_read_elsewhere_has_its_own_range() -> None:
    relu = helper.make_node("Relu", ["c"], ["y"], name="/relu")
    mod = quantised([CONV, relu], X, ["y", "c"], 0.02, w=W, b=B)
    assert operators(mod) == "Q D d conv2d d reshape add Q D relu Q D"
    params = activation_params(mod)
    assert params["/relu_QuantizeLinear"][1] == -128
    assert params["/relu_QuantizeLinear"][0] < params["/conv_QuantizeLinear"][0]


def test_moves_share_the_scale_of_their_input() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="dense"),
    ]
    mod = quantised(nodes, X, ["y"], 0.03, m=random_values(48, 5, seed=3))
    assert operators(mod) == "Q D max_pool2d Q D reshape Q D d matmul Q D"
    params = activation_params(mod)
    assert params["x_QuantizeLinear"] == params["pool_QuantizeLinear"]
    assert params["x_QuantizeLinear"] == params["flat_QuantizeLinear"]
    weight = next(c for c in calls(mod) if is_call(c, "relax.matmul"))
    assert (
        int(
            next(
                c
                for c in calls(mod)
                if c.op.name == "relax.dequantize" and isinstance(c.args[0], tvm.ir.GenericConst)
            ).attrs.axis
        )
        == 1
    )
    assert weight.args[1].name == "dense_weight"


def test_dense_with_bias() -> None:
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="fc", transB=1)
    weight = random_values(5, 6, seed=1)
    mod = quantised([gemm], {"x": [2, 6]}, ["y"], 0.03, w=weight, b=random_values(5))
    assert operators(mod) == "Q D d matmul d add Q D"
    assert calls(mod)[2].args[0].value.shape == (6, 5)


def test_matmul_of_two_activations() -> None:
    mod = quantised(
        [helper.make_node("MatMul", ["x", "y"], ["z"])], {"x": [3, 4], "y": [4, 5]}, ["z"], 0.05
    )
    assert operators(mod) == "Q D Q D matmul Q D"


def test_add_of_two_and_of_a_constant() -> None:
    nodes = [
        helper.make_node("Add", ["x", "x"], ["a"], name="twice"),
        helper.make_node("Add", ["a", "k"], ["y"], name="offset"),
    ]
    mod = quantised(nodes, X, ["y"], 0.02, k=random_values(1, 3, 1, 1))
    assert operators(mod) == "Q D add Q D d add Q D"


def test_add_of_a_scalar_constant() -> None:
    add = helper.make_node("Add", ["x", "k"], ["y"])
    mod = quantised([add], X, ["y"], 0.02, k=np.float32(0.5))
    assert operators(mod) == "Q D d add Q D"


def test_concat_average_pool_and_mean() -> None:
    nodes = [
        helper.make_node("Concat", ["x", "y"], ["c"], axis=1),
        helper.make_node("AveragePool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["p"], ["z"]),
    ]
    mod = quantised(nodes, {"x": [1, 3, 8, 8], "y": [1, 2, 8, 8]}, ["z"], 0.05)
    assert operators(mod) == "Q D Q D concat Q D avg_pool2d Q D mean Q D"


def test_operators_that_stay_in_float() -> None:
    nodes = [
        CONV,
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Add", ["s", "c"], ["y"]),
    ]
    mod = quantised(nodes, X, ["y"], 0.02, w=W, b=B)
    assert operators(mod) == "Q D d conv2d d reshape add Q D sigmoid Q D add Q D"


def test_names_survive() -> None:
    nodes = [helper.make_node("Conv", ["x/in:0", "w"], ["out/a.0"], name="/f.0/conv:0")]
    mod = from_onnx(make_model(nodes, {"x/in:0": [1, 3, 8, 8]}, ["out/a.0"], {"w": W}))
    mod = quantize(mod, [{"x/in:0": random_values(1, 3, 8, 8)}])
    assert input_names(mod) == ["x/in:0"] and output_names(mod) == ["out/a.0"]
    assert [call_name(call) for call in calls(mod)] == [
        "x/in:0_QuantizeLinear", "x/in:0_DequantizeLinear", "/f.0/conv:0_weight_DequantizeLinear",
        "/f.0/conv:0", "/f.0/conv:0_QuantizeLinear", "/f.0/conv:0_DequantizeLinear",
    ]  # fmt: skip
    assert profile(mod) == "integer"


def batch_norm_constants(channels: int) -> dict[str, np.ndarray]:
    """Return gamma, beta, mean and a positive variance."""
    values = {name: random_values(channels, seed=i + 11) for i, name in enumerate("gbm")}
    return {**values, "v": np.abs(random_values(channels, seed=20)) + 0.1}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [1, 3])
def test_batch_norm_folds_into_a_convolution(bias: bool, groups: int) -> None:
    conv = helper.make_node(
        "Conv", ["x", "w", *(["b"] if bias else [])], ["c"], name="conv", group=groups
    )
    norm = helper.make_node("BatchNormalization", ["c", "g", "be", "m", "v"], ["y"], name="norm")
    constants = {"w": random_values(6, 3 // groups, 3, 3), "b": random_values(6)}
    norms = batch_norm_constants(6)
    norms["be"] = norms.pop("b")
    mod = from_onnx(make_model([conv, norm], X, ["y"], {**constants, **norms}))
    folded = FoldBatchNorm().apply(mod)
    assert [str(c.op.name) for c in calls(folded)] == ["relax.nn.conv2d", "relax.add"]
    assert [call_name(c) for c in calls(folded)] == ["conv", "norm"]
    x = {"x": random_values(1, 3, 8, 8)}
    np.testing.assert_allclose(
        run_module(folded, x)[0], run_module(mod, x)[0], rtol=1e-4, atol=1e-5
    )
    assert operators(quantize(mod, [x])) == "Q D d conv2d d reshape add Q D"


def test_batch_norm_folds_into_a_dense_layer() -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "bias"], ["c"], transB=1),
        helper.make_node("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"]),
    ]
    constants = {"w": random_values(5, 4), "bias": random_values(5), **batch_norm_constants(5)}
    mod = from_onnx(make_model(nodes, {"x": [3, 4]}, ["y"], constants))
    folded = FoldBatchNorm().apply(mod)
    assert [str(c.op.name) for c in calls(folded)] == ["relax.matmul", "relax.add"]
    x = {"x": random_values(3, 4)}
    np.testing.assert_allclose(
        run_module(folded, x)[0], run_module(mod, x)[0], rtol=1e-4, atol=1e-5
    )


def test_batch_norm_of_a_convolution_that_is_read_elsewhere_stays() -> None:
    norm = helper.make_node("BatchNormalization", ["c", "g", "be", "m", "v"], ["y"])
    norms = batch_norm_constants(4)
    norms["be"] = norms.pop("b")
    model = make_model([CONV, norm], X, ["y", "c"], {"w": W, "b": B, **norms})
    folded = FoldBatchNorm().apply(from_onnx(model))
    assert "relax.nn.batch_norm" in [str(c.op.name) for c in calls(folded)]


def test_bias_that_would_clip_raises_the_weight_scale() -> None:
    conv = helper.make_node("Conv", ["x", "w", "b"], ["o"])
    constants = {
        "w": np.float32([1e-7, -1e-7]).reshape(2, 1, 1, 1), "b": np.float32([5.0, -4.5])
    }  # fmt: skip
    mod = from_onnx(make_model([conv], {"x": [1, 1, 1, 1]}, ["o"], constants))
    x = {"x": np.ones((1, 1, 1, 1), np.float32)}
    (result,) = run_module(quantize(mod, [x]), x)
    np.testing.assert_allclose(result.ravel(), [5.0, -4.5], atol=9.5 / 255 / 2)


def test_symbolic_batch_gives_equal_rows() -> None:
    flatten = helper.make_node("Flatten", ["c"], ["f"])
    dense = helper.make_node("MatMul", ["f", "m"], ["y"])
    model = make_model(
        [CONV, flatten, dense], {"x": ["N", 3, 8, 8]}, ["y"],
        {"w": W, "b": B, "m": random_values(144, 5)},
    )  # fmt: skip
    x = random_values(5, 3, 8, 8)
    mod = quantize(from_onnx(model), [{"x": x}, {"x": x[:2]}])
    (together,) = run_module(mod, {"x": x})
    rows = [run_module(mod, {"x": x[i : i + 1]})[0] for i in range(5)]
    np.testing.assert_array_equal(together, np.concatenate(rows))


def test_batches_are_split_to_a_static_batch() -> None:
    mod = from_onnx(make_model([CONV], X, ["c"], {"w": W, "b": B}))
    x = random_values(4, 3, 8, 8)
    together = quantize(mod, {"x": x})
    apart = quantize(mod, [{"x": x[i : i + 1]} for i in range(4)])
    assert activation_params(together) == activation_params(apart)


def test_batches_may_be_a_stream_and_progress_is_reported() -> None:
    mod = from_onnx(make_model([CONV], X, ["c"], {"w": W, "b": B}))
    seen: list[int] = []
    stream = ({"x": random_values(1, 3, 8, 8, seed=i)} for i in range(3))
    quantize(mod, stream, progress=seen.append)
    assert seen == [1, 2, 3]


def test_recipe_follows_the_npu() -> None:
    npu = NpuConfig(
        "plain", capabilities=Capabilities(per_channel_scales=False, asymmetric_activations=False)
    )
    mod = from_onnx(make_model([CONV], X, ["c"], {"w": W, "b": B}))
    result = quantize(mod, [{"x": random_values(1, 3, 8, 8)}], npu=npu)
    assert all(zero_point == 0 for _, zero_point in activation_params(result).values())
    assert len(set(calls(result)[2].args[1].value.numpy().tolist())) == 1


def test_uncalibrated_models_are_marked() -> None:
    mod = from_onnx(make_model([CONV], X, ["c"], {"w": W, "b": B}))
    result = quantize_uncalibrated(mod)
    assert operators(result) == "Q D d conv2d d reshape add Q D"
    assert int(result["main"].attrs["vnpu.calibrated"]) == 0
    assert "vnpu.calibrated" not in quantize(mod, [{"x": random_values(1, 3, 8, 8)}])["main"].attrs
