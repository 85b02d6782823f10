"""What the importer refuses, in which words; nothing is printed or warned."""

from __future__ import annotations

import gc
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from runtime_sim.errors import VnpuError
from tests.relax.onnx_models import make_model, random_values, run_module
from tvm_vnpu.relax.importer import from_onnx, load_onnx

RELU = [helper.make_node("Relu", ["in/x"], ["y"], name="act")]


def refusal(model: onnx.ModelProto, shapes: dict[str, list[int]] | None = None) -> str:
    """Return the message from_onnx raises."""
    try:
        from_onnx(model, shapes)
    except VnpuError as error:
        return str(error)
    raise AssertionError("the model was imported")


@pytest.mark.parametrize("size", [None, "H"])
def test_dynamic_axis_other_than_the_batch(size: str | None) -> None:
    assert refusal(make_model(RELU, {"in/x": ["N", 3, size, 8]}, ["y"])) == (
        f"input 'in/x' has a dynamic axis 2: seen (N, 3, {size or '?'}, 8); limit only axis 0, the "
        "batch, may be dynamic; give its size with --shape in/x=SIZE,3,SIZE,8"
    )


def test_unknown_rank() -> None:
    model = make_model(RELU, {"in/x": [1]}, ["y"])
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert refusal(model) == (
        "input 'in/x' has no shape in the model: seen unknown rank; "
        "give it with --shape in/x=SIZE,..."
    )
    assert from_onnx(model, {"in/x": [2, 3]})["main"].params[0].ty.ndim == 2


def test_shape_for_an_unknown_input() -> None:
    assert refusal(make_model(RELU, {"in/x": [1]}, ["y"]), {"x": [1]}) == (
        "shape given for an input the model does not have: seen 'x'; limit the inputs are in/x; "
        "use one of these names in --shape"
    )


@pytest.mark.parametrize("given", [[1, 3, 4], [1, 3, 5, 4], [1, 3, 0, 8]])
def test_shape_that_does_not_fit(given: list[int]) -> None:
    message = refusal(make_model(RELU, {"in/x": ["N", 3, None, 8]}, ["y"]), {"in/x": given})
    assert message == (
        "shape given for input 'in/x' does not fit the model: "
        f"seen {','.join(map(str, given))}; limit the model declares (N, 3, ?, 8); "
        "give one positive size per axis, equal to the declared one where it is fixed"
    )


def test_given_shape_pins_a_dynamic_axis() -> None:
    mod = from_onnx(make_model(RELU, {"in/x": ["N", None]}, ["y"]), {"in/x": [2, 5]})
    assert [int(dim) for dim in mod["main"].params[0].ty.shape] == [2, 5]


def test_symbolic_batch_is_shared_between_inputs() -> None:
    add = [helper.make_node("Add", ["a", "b"], ["y"])]
    mod = from_onnx(make_model(add, {"a": [None, 2], "b": ["?", 2]}, ["y"]))
    first, second = (param.ty.shape[0] for param in mod["main"].params)
    assert first.same_as(second)
    a, b = random_values(3, 2), random_values(3, 2, seed=1)
    np.testing.assert_array_equal(run_module(mod, {"a": a, "b": b})[0], a + b)


def test_unknown_operator() -> None:
    model = make_model([helper.make_node("QLinearAdd", ["x"], ["y"], name="q")], {"x": [1]}, ["y"])
    assert refusal(model) == (
        "operator cannot be imported: seen QLinearAdd (node 'q'); limit TVM's Relax ONNX importer "
        "has no converter for it; rewrite the model without it, for example in QDQ form"
    )


def test_node_that_cannot_be_converted_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Flatten", ["x"], ["y"], name="f/1", axis=7)]
    message = refusal(make_model(nodes, {"x": [1, 2]}, ["y"]))
    assert message == (
        "cannot import node 'f/1' (Flatten): "
        "seen Flatten axis 7 is out of range [-2, 2] for an input of rank 2"
    )
    gc.collect()  # a builder that dies with open blocks warns on stderr
    assert capfd.readouterr() == ("", "")


def test_tensor_that_nothing_makes() -> None:
    assert refusal(make_model(RELU, {"z": [1]}, ["y"])) == (
        "node 'act' reads a tensor that nothing before it makes: seen 'in/x'; "
        "check that the model file is complete and its nodes are in order"
    )
    assert refusal(make_model(RELU, {"in/x": [1]}, ["w"])) == (
        "a model output is made by no node: seen 'w'; check that the model file is complete"
    )


def test_auto_pad_needs_known_sizes() -> None:
    reshape = helper.make_node("Reshape", ["x", "s"], ["r"])
    pool = helper.make_node(
        "MaxPool", ["r"], ["y"], name="p", kernel_shape=[2, 2], auto_pad="SAME_UPPER"
    )
    model = make_model([reshape, pool], {"x": ["N", 4]}, ["y"], {"s": np.array([1, 1, -1, 4])})
    assert refusal(model) == (
        "node 'p' pads by SAME_UPPER: seen input shape (1, 1, ?, 4); limit height and width have "
        "to be known; give the input shapes with --shape"
    )


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(VnpuError) as caught:
        load_onnx(tmp_path / "none.onnx")
    assert str(caught.value) == f"no such model file: seen {tmp_path / 'none.onnx'}"


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, 0.999])
def test_truncated_file_is_refused_in_one_line(tmp_path: Path, fraction: float) -> None:
    model = make_model(RELU, {"in/x": [1]}, ["y"], {"w": random_values(64)})
    data = model.SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * fraction)])
    with pytest.raises(VnpuError) as caught:
        load_onnx(path)
    message = str(caught.value)
    assert message.startswith(f"cannot read {str(path)!r} as an ONNX model: seen ")
    assert message.endswith("; check that the file is complete and is an .onnx model")
    assert "\n" not in message


def test_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "readme.onnx"
    path.write_text("this is no model\n")
    with pytest.raises(VnpuError, match="as an ONNX model: seen "):
        load_onnx(path)


def test_import_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Relu", ["1.x"], ["y"])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_onnx(make_model(nodes, {"1.x": [None, 2]}, ["y"]))
    assert capfd.readouterr() == ("", "")


def test_constant_of_a_type_tvm_cannot_read() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"])
    model.graph.initializer.append(
        helper.make_tensor("w4", onnx.TensorProto.INT4, [3], np.array([1, 2, 3]))
    )
    assert refusal(model) == (
        "constant 'w4' cannot be imported: seen INT4 of shape (3,); limit types TVM's Relax ONNX "
        "importer reads; store it as int8, uint8, int32 or float32"
    )
