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


RANDOM = {"w": random_values(4, 3, 1, 1)}
CONV = [helper.make_node("Conv", ["x", "w"], ["y"], name="c")]


def conv_model() -> onnx.ModelProto:
    """Return a model of one good convolution."""
    return make_model(CONV, {"x": [1, 3, 4, 4]}, ["y"], RANDOM)


@pytest.mark.parametrize("operator", ["Add", "Concat"])
def test_leading_symbols_are_one_batch(operator: str) -> None:
    attributes = {"axis": 1} if operator == "Concat" else {}
    node = helper.make_node(operator, ["x", "z"], ["y"], **attributes)
    mod = from_onnx(make_model([node], {"x": ["N", 4], "z": ["M", 4]}, ["y"]))
    first, second = (param.ty.shape[0] for param in mod["main"].params)
    assert first.same_as(second) and first.name == "batch"
    for rows in (1, 3):
        x, z = random_values(rows, 4), random_values(rows, 4, seed=1)
        wanted = x + z if operator == "Add" else np.concatenate([x, z], axis=1)
        np.testing.assert_array_equal(run_module(mod, {"x": x, "z": z})[0], wanted)


def test_shapes_separate_what_shares_the_batch() -> None:
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in (("x", "y"), ("z", "w"))]
    mod = from_onnx(make_model(nodes, {"x": ["N", 4], "z": ["M", 4]}, ["y", "w"]), {"z": [5, 4]})
    x, z = (param.ty.shape[0] for param in mod["main"].params)
    assert x.name == "N" and int(z) == 5


@pytest.mark.parametrize(
    ("node", "shape", "seen"),
    [
        ({"op_type": "AveragePool", "kernel_shape": [4, 1]}, [1, 3, 2, 2], "(1, 3, -1, 2)"),
        ({"op_type": "MaxPool", "kernel_shape": [4, 4]}, [1, 3, 3, 3], "(1, 3, 0, 0)"),
        ({"op_type": "MaxPool", "kernel_shape": [4, 4]}, ["N", 3, 3, 3], "(?, 3, 0, 0)"),
    ],
)
def test_a_node_that_makes_nothing(
    node: dict[str, object], shape: list[int | str], seen: str
) -> None:
    made = helper.make_node(inputs=["x"], outputs=["y"], name="p", **node)  # type: ignore[arg-type]
    assert refusal(make_model([made], {"x": shape}, ["y"])) == (
        f"node 'p' ({node['op_type']}) makes an empty tensor: seen output shape {seen}; limit "
        "sizes from 1; check weight, kernel, stride and padding against the input"
    )


def test_a_convolution_without_channels(capfd: pytest.CaptureFixture[str]) -> None:
    model = make_model(CONV, {"x": [1, 3, 4, 4]}, ["y"], {"w": random_values(0, 3, 1, 1)})
    assert refusal(model).startswith(
        "node 'c' (Conv) makes an empty tensor: seen output shape (1, 0, 4, 4); "
    )
    gc.collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("axes", "text"), [([0, 4], "(0, 4)"), ([2, 0], "(2, 0)"), (["N", 0], "(N, 0)")]
)
def test_an_axis_of_size_0_is_not_dynamic(axes: list[int | str], text: str) -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    assert refusal(make_model(relu, {"x": axes}, ["y"])) == (
        f"input 'x' has an axis of size 0: seen {text}; limit sizes from 1; "
        "export the model with an input that is not empty"
    )


def test_an_absurd_shape() -> None:
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    model = make_model(relu, {"x": ["N", "H"]}, ["y"])
    assert refusal(model, {"x": [1 << 20, 1 << 20]}) == (
        "input 'x' is too large: seen 1099511627776 elements; limit 2147483648; "
        "give a smaller shape"
    )


@pytest.mark.parametrize(
    ("number", "seen"), [(0, "none"), (8, "STRING"), (14, "COMPLEX64"), (99, "number 99")]
)
def test_element_types_that_are_no_numbers(number: int, seen: str) -> None:
    model = conv_model()
    model.graph.input[0].type.tensor_type.elem_type = number
    assert refusal(model) == (
        f"input 'x' has an element type that cannot be imported: seen {seen}; limit integers, "
        "floats and booleans; export the model with a numeric input"
    )


def test_an_input_that_is_no_tensor() -> None:
    model = conv_model()
    model.graph.input[0].CopyFrom(
        helper.make_tensor_sequence_value_info("x", onnx.TensorProto.FLOAT, [1])
    )
    assert refusal(model) == (
        "input 'x' is no tensor: seen sequence; limit tensors; "
        "export the model with tensors as inputs"
    )


@pytest.mark.parametrize(("field", "kind"), [("input", "input"), ("output", "output")])
def test_two_of_one_name(field: str, kind: str) -> None:
    model = conv_model()
    values = getattr(model.graph, field)
    values.append(values[0])
    assert refusal(model) == (
        f"two {kind}s of the model have one name: seen {values[0].name!r}; give each its own"
    )


def test_a_tensor_that_two_nodes_make() -> None:
    model = conv_model()
    model.graph.node.append(helper.make_node("Relu", ["x"], ["y"], name="r"))
    assert refusal(model) == (
        "node 'r' makes a tensor that is there already: seen 'y'; "
        "give every tensor a name of its own"
    )


def test_an_attribute_without_a_type() -> None:
    model = conv_model()
    model.graph.node[0].attribute.add(name="pads")
    assert refusal(model) == (
        "node 'c' (Conv) has an attribute without a type: seen 'pads'; "
        "check that the model file is complete"
    )


def test_an_attribute_that_is_an_empty_list_is_its_default() -> None:
    model = conv_model()
    model.graph.node[0].attribute.add(name="pads", type=onnx.AttributeProto.INTS)
    x = random_values(1, 3, 4, 4)
    wanted = run_module(from_onnx(conv_model()), {"x": x})[0]
    np.testing.assert_array_equal(run_module(from_onnx(model), {"x": x})[0], wanted)


def test_a_constant_that_is_cut_short() -> None:
    model = conv_model()
    tensor = model.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:20]
    assert refusal(model) == (
        "constant 'w' cannot be imported: seen FLOAT of shape (4, 3, 1, 1): cannot reshape array "
        "of size 5 into shape (4,3,1,1); check that the model file is complete"
    )
    tensor.data_type = 99
    assert refusal(model).startswith("constant 'w' cannot be imported: seen number 99 of shape ")


def test_unread_indices_of_a_pooling_are_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    pool = helper.make_node("MaxPool", ["x"], ["y", "i"], name="p", kernel_shape=[2, 2])
    x = random_values(2, 3, 4, 4)
    mod = from_onnx(make_model([pool], {"x": ["N", 3, 4, 4]}, ["y"]))
    wanted = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((4, 5))
    np.testing.assert_array_equal(run_module(mod, {"x": x})[0], wanted)
    line = refusal(make_model([pool], {"x": ["N", 3, 4, 4]}, ["y", "i"]))
    assert line.startswith("cannot import node 'p' (MaxPool): seen ") and "\n" not in line
    gc.collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "attribute",
    [
        {"pads": [1, 1, 1]},
        {"strides": [0, 0]},
        {"strides": "ab"},
        {"group": 0},
        {"group": 2},
        {"pads": [-9, 0, 0, 0]},
    ],
    ids=str,
)
def test_any_fault_of_a_node_names_it(
    attribute: dict[str, object], capfd: pytest.CaptureFixture[str]
) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attribute)
    model = make_model([node], {"x": [1, 3, 4, 4]}, ["y"], RANDOM)
    line = refusal(model)
    assert "node 'c' (Conv)" in line and "\n" not in line
    gc.collect()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("attribute", "line"),
    [
        (
            {"kernel_shape": [3, 3]},
            "node 'c' has a kernel_shape that is not its weight's: seen (3, 3); limit (1, 1); "
            "check that the model file is complete",
        ),
        (
            {"auto_pad": "SOME"},
            "node 'c' has an unknown auto_pad: seen SOME; "
            "limit one of NOTSET, SAME_UPPER, SAME_LOWER, VALID",
        ),
    ],
)
def test_attributes_that_contradict(attribute: dict[str, object], line: str) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="c", **attribute)
    assert refusal(make_model([node], {"x": [1, 3, 4, 4]}, ["y"], RANDOM)) == line


def test_a_fault_that_nobody_foresaw_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(model: onnx.ModelProto) -> None:
        raise KeyError("one\ntwo")

    monkeypatch.setattr("tvm_vnpu.relax.importer.cleaned", fail)
    assert refusal(conv_model()) == "the model cannot be imported: seen KeyError: 'one\\ntwo'"


def test_control_characters_of_a_name_are_replaced() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="a\0b\nc")
    mod = from_onnx(make_model([node], {"x": [1, 4]}, ["y"]))
    assert "a_b_c" in str(mod) and "\0" not in str(mod)
