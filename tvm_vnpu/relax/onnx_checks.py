"""Faults of an ONNX graph that are named before TVM's importer sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import onnx
from onnx import TensorProto

from runtime_sim.errors import VnpuError
from tvm_vnpu.relax.onnx_shapes import model_inputs

_NOT_IN_RELAX = frozenset(
    {
        TensorProto.UNDEFINED,
        TensorProto.STRING,
        TensorProto.COMPLEX64,
        TensorProto.COMPLEX128,
    }
)
_COMPLETE = "check that the model file is complete"


def check_graph(graph: onnx.GraphProto) -> None:
    """Raise VnpuError for a graph that is not well formed, naming input, node or tensor."""
    _check_names("input", [value.name for value in graph.input])
    _check_names("output", [value.name for value in graph.output])
    _check_names("constant", [tensor.name for tensor in graph.initializer])
    for value in model_inputs(graph):
        _check_input(value)
    for node in graph.node:
        _check_attributes(node)
    _check_links(graph)


def type_name(number: int) -> str:
    """Return the name of an ONNX element type, also of one that there is none of."""
    known = number in TensorProto.DataType.values()
    return str(TensorProto.DataType.Name(number)) if known else f"number {number}"


def _check_names(kind: str, names: Sequence[str]) -> None:
    if not all(names):
        raise VnpuError(f"the model has an unnamed {kind}", fix=_COMPLETE)
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise VnpuError(
            f"two {kind}s of the model have one name", seen=repr(twice), fix="give each its own"
        )


def _check_input(value: onnx.ValueInfoProto) -> None:
    kind = value.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        raise VnpuError(
            f"input {value.name!r} is no tensor",
            seen=kind.removesuffix("_type"),
            limit="tensors",
            fix="export the model with tensors as inputs",
        )
    number = value.type.tensor_type.elem_type
    if number in _NOT_IN_RELAX or number not in TensorProto.DataType.values():
        raise VnpuError(
            f"input {value.name!r} has an element type that cannot be imported",
            seen="none" if number == TensorProto.UNDEFINED else type_name(number),
            limit="integers, floats and booleans",
            fix="export the model with a numeric input",
        )


def _check_attributes(node: onnx.NodeProto) -> None:
    for attribute in node.attribute:
        if not attribute.name or attribute.type == onnx.AttributeProto.UNDEFINED:
            raise VnpuError(
                f"node {node.name!r} ({node.op_type}) has an attribute without "
                + ("a type" if attribute.name else "a name"),
                seen=repr(attribute.name),
                fix=_COMPLETE,
            )


def _check_links(graph: onnx.GraphProto) -> None:
    known = {value.name for value in graph.input} | {t.name for t in graph.initializer} | {""}
    for node in graph.node:
        _check_node_links(node, known)
        known.update(node.output)
    for output in graph.output:
        if output.name not in known:
            raise VnpuError(
                "a model output is made by no node", seen=repr(output.name), fix=_COMPLETE
            )


def _check_node_links(node: onnx.NodeProto, known: Iterable[str]) -> None:
    for name in node.input:
        if name not in known:
            raise VnpuError(
                f"node {node.name!r} reads a tensor that nothing before it makes",
                seen=repr(name),
                fix=f"{_COMPLETE} and its nodes are in order",
            )
    if not any(node.output):
        raise VnpuError(f"node {node.name!r} ({node.op_type}) makes nothing", fix=_COMPLETE)
    for name in node.output:
        if name and name in known:
            raise VnpuError(
                f"node {node.name!r} makes a tensor that is there already",
                seen=repr(name),
                fix="give every tensor a name of its own",
            )
