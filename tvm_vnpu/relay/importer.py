"""ONNX to Relay: what TVM's importer stumbles over is put right in the model first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import tvm
from google.protobuf.message import DecodeError
from onnx import numpy_helper
from tvm import relay

from runtime_sim.errors import VnpuError
from tvm_vnpu.relay.onnx_rows import give_rows

_QDQ = frozenset({"QuantizeLinear", "DequantizeLinear"})
_PADDED = frozenset({"Conv", "QLinearConv", "MaxPool", "AveragePool", "ConvInteger"})


def load_onnx(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Read an ONNX file. Raises VnpuError in one line if it is missing or unreadable."""
    try:
        return onnx.load(os.fspath(path))
    except FileNotFoundError as error:
        raise VnpuError("no such model file", seen=error.filename or path) from error
    except (OSError, DecodeError, ValueError) as error:
        raise VnpuError(
            f"cannot read {os.fspath(path)!r} as an ONNX model", seen=str(error),
            fix="check that the file is complete and is an .onnx model",
        ) from error  # fmt: skip


def from_onnx(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] | None = None
) -> tvm.IRModule:
    """Import an ONNX model as a Relay module whose parameters are constants.

    Every node has a name, which its calls carry in their spans. `shapes` pins inputs. Raises
    VnpuError where TVM's importer refuses the model.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    model = copy
    _name_nodes(model.graph)
    _scalar_parameters(model.graph)
    _explicit_pads(model)
    give_rows(model.graph, _weight_ranks(model.graph))
    try:
        mod, params = relay.frontend.from_onnx(
            model, shape={k: list(v) for k, v in (shapes or {}).items()} or None,
            freeze_params=True,
        )  # fmt: skip
    except (tvm.TVMError, tvm.error.OpError, KeyError, AttributeError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise VnpuError(
            "TVM's Relay importer refuses the model", seen=lines[-1] if lines else "no message"
        ) from error
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params)
    return relay.transform.InferType()(mod)


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Name nameless nodes after their first output, in place."""
    for node in graph.node:
        node.name = node.name or next((out for out in node.output if out), node.op_type)


def _scalar_parameters(graph: onnx.GraphProto) -> None:
    """Make scales and zero points of one element scalars, in place: the importer takes a vector
    for parameters per channel."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type not in _QDQ:
            continue
        for name in node.input[1:]:
            tensor = tensors.get(name)
            if tensor is not None and list(tensor.dims) == [1]:
                value = numpy_helper.to_array(tensor).reshape(())
                tensor.CopyFrom(numpy_helper.from_array(value, name))


def _weight_ranks(graph: onnx.GraphProto) -> dict[str, int]:
    """Return tensor -> number of axes, of constants and of constants that are dequantised."""
    ranks = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type in _QDQ and node.input[0] in ranks:
            ranks[node.output[0]] = ranks[node.input[0]]
    return ranks


def _explicit_pads(model: onnx.ModelProto) -> None:
    """Replace auto_pad by pads, in place, where shapes are known: the importer would compute the
    pads by divisions that TVM cannot compile."""
    padded = [node for node in model.graph.node if _auto_pad(node) in ("SAME_UPPER", "SAME_LOWER")]
    if not padded:
        return
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = (*inferred.value_info, *inferred.input, *inferred.output)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
    weights = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    for node in padded:
        spatial = shapes.get(node.input[0], [])[2:]
        kernel = _kernel(node, weights | shapes)
        if spatial and kernel and all(spatial):
            _set_pads(node, spatial, kernel)


def _auto_pad(node: onnx.NodeProto) -> str:
    found = [a.s.decode() for a in node.attribute if a.name == "auto_pad"]
    return found[0] if found and node.op_type in _PADDED else ""


def _kernel(node: onnx.NodeProto, shapes: Mapping[str, list[int]]) -> list[int]:
    own = _ints(node, "kernel_shape")
    weight = node.input[3] if node.op_type == "QLinearConv" else node.input[-1]
    return own or shapes.get(weight, [])[2:]


def _ints(node: onnx.NodeProto, name: str) -> list[int]:
    return next((list(a.ints) for a in node.attribute if a.name == name), [])


def _set_pads(node: onnx.NodeProto, spatial: list[int], kernel: list[int]) -> None:
    strides = _ints(node, "strides") or [1] * len(kernel)
    dilations = _ints(node, "dilations") or [1] * len(kernel)
    upper = _auto_pad(node) == "SAME_UPPER"
    first, last = [], []
    for size, k, stride, dilation in zip(spatial, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (k - 1) * dilation + 1 - size)
        small, large = total // 2, total - total // 2
        first.append(small if upper else large)
        last.append(large if upper else small)
    kept = [a for a in node.attribute if a.name not in ("auto_pad", "pads")]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(onnx.helper.make_attribute("pads", np.array(first + last).tolist()))
