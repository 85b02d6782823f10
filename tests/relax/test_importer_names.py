"""Names survive the import: nodes, inputs and outputs."""

from __future__ import annotations

import numpy as np
from onnx import helper
from tvm import relax

from tests.relax.onnx_models import make_model, random_values, run_module
from tvm_vnpu.relax.importer import from_onnx
from tvm_vnpu.relax.names import call_name, input_names, node_name, output_names, profile
from tvm_vnpu.relax.rewrite import bindings_of


def two_by_two() -> list:
    """Return nodes from inputs `x/in:0`, `x.in/0` to outputs `out/a.0`, `out:b`."""
    return [
        helper.make_node("Add", ["x/in:0", "x.in/0"], ["out/a.0"], name="block.1/add:0"),
        helper.make_node("Relu", ["out/a.0"], ["out:b"]),
    ]


def test_input_and_output_names_survive() -> None:
    mod = from_onnx(make_model(two_by_two(), {"x/in:0": [2], "x.in/0": [2]}, ["out:b", "out/a.0"]))
    assert input_names(mod) == ["x/in:0", "x.in/0"]
    assert output_names(mod) == ["out:b", "out/a.0"]
    assert [param.name for param in mod["main"].params] == ["x_in_0", "x_in_0_1"]
    feeds = {"x/in:0": np.float32([1, -3]), "x.in/0": np.float32([0, 1])}
    relu, total = run_module(mod, feeds)
    np.testing.assert_array_equal(total, np.float32([1, -2]))
    np.testing.assert_array_equal(relu, np.float32([1, 0]))


def test_every_call_carries_its_node() -> None:
    mod = from_onnx(make_model(two_by_two(), {"x/in:0": [2], "x.in/0": [2]}, ["out:b", "out/a.0"]))
    calls = {b.var.name: call_name(b.value) for b in bindings_of(mod["main"])}
    assert calls["block_1_add_0"] == "block.1/add:0"
    assert calls["out_b"] == "out:b"
    assert node_name(mod, "block_1_add_0") == "block.1/add:0"
    assert node_name(mod, "unknown") == "unknown"


def test_equal_node_names_are_made_unique() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Neg", ["a"], ["b"], name="relu"),
        helper.make_node("Abs", ["b"], ["c"], name="relu"),
    ]
    mod = from_onnx(make_model(nodes, {"x": [2]}, ["c"]))
    names = [call_name(b.value) for b in bindings_of(mod["main"])]
    assert names[:3] == ["relu", "relu_1", "relu_2"]


def test_a_layer_and_its_bias_have_one_name() -> None:
    conv = helper.make_node("Conv", ["x", "w", "b"], ["y"], name="/f/conv")
    constants = {"w": random_values(2, 1, 1, 1), "b": random_values(2)}
    mod = from_onnx(make_model([conv], {"x": [1, 1, 2, 2]}, ["y"], constants))
    assert [call_name(b.value) for b in bindings_of(mod["main"])][:3] == ["/f/conv"] * 3


def test_names_survive_fusion() -> None:
    mod = from_onnx(make_model(two_by_two(), {"x/in:0": [2], "x.in/0": [2]}, ["out:b"]))
    pattern = relax.dpl.is_op("relax.nn.relu")(
        relax.dpl.is_op("relax.add")(relax.dpl.wildcard(), relax.dpl.wildcard())
    )
    fused = relax.transform.FuseOpsByPattern([("t.pair", pattern)], annotate_codegen=False)(mod)
    composite = next(f for f in fused.functions.values() if "Composite" in (f.attrs or {}))
    assert [call_name(b.value) for b in bindings_of(composite)] == ["block.1/add:0", "out:b"]
    assert input_names(fused) == ["x/in:0", "x.in/0"]


def test_profile_is_onnx_for_quantised_models_only() -> None:
    q = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])
    constants = {"s": np.float32(0.5), "z": np.int8(0)}
    quantised = make_model([q], {"x": [2]}, ["q"], constants, output_type=3)
    assert profile(from_onnx(quantised)) == "onnx"
    assert profile(from_onnx(make_model(two_by_two()[1:], {"out/a.0": [2]}, ["out:b"]))) is None


def test_names_of_a_module_from_another_front_end() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("data", relax.TensorType([2], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.Tuple([x, builder.emit(relax.op.nn.relu(x))]))
        builder.emit_func_output(y)
    mod = builder.get()
    assert input_names(mod) == ["data"]
    assert output_names(mod) == ["output_0", "output_1"]
