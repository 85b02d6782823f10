"""Clean an ONNX graph before import: every node named, constant nodes folded."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

# Folding a dequantize would lose the integer weight; the others have no fixed value.
_NEVER_FOLDED = frozenset(
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear Bernoulli RandomNormal RandomUniform "
    "RandomNormalLike RandomUniformLike Multinomial Dropout If Loop Scan".split()
)
# Operators whose outputs after the first TVM's importer does not make.
_FIRST_OUTPUT_ONLY = frozenset("BatchNormalization Dropout LayerNormalization MaxPool".split())
_MAX_FOLDED_BYTES = 1 << 26


def cleaned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with unique node names, without nodes that compute constants, without outputs
    that training or unpooling would need and nothing reads.

    A nameless node gets the name of its first output.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    name_nodes(result.graph)
    drop_unread_outputs(result.graph)
    fold_constant_nodes(result)
    return result


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node of a graph a name of its own, in place."""
    taken: set[str] = set()
    for node in graph.node:
        base = _printable(
            node.name or next((output for output in node.output if output), node.op_type)
        )
        name, suffix = base, 1
        while name in taken:
            name, suffix = f"{base}_{suffix}", suffix + 1
        taken.add(name)
        node.name = name


def _printable(name: str | bytes) -> str:
    """Return a name without control characters, which C comments and tables cannot hold."""
    text = name if isinstance(name, str) else name.decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "_" for character in text)


def drop_unread_outputs(graph: onnx.GraphProto) -> None:
    """Take away outputs after the first that nothing reads, such as MaxPool's indices, in place."""
    read = {value.name for value in graph.output} | _read_names(graph)
    for node in graph.node:
        if node.op_type in _FIRST_OUTPUT_ONLY:
            while len(node.output) > 1 and node.output[-1] not in read:
                del node.output[-1]


def _read_names(graph: onnx.GraphProto) -> set[str]:
    """Return what the nodes of a graph read, those of its subgraphs included."""
    names: set[str] = set()
    for node in graph.node:
        names.update(name for name in node.input if name)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                names |= _read_names(inner) | {value.name for value in inner.output}
    return names


def fold_constant_nodes(model: onnx.ModelProto) -> None:
    """Replace nodes with constant inputs only by initialisers, in place, leaving Q and DQ alone."""
    graph = model.graph
    initialisers = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        values = _constant_outputs(node, initialisers, outputs, model)
        if values is None:
            kept.append(node)
            continue
        for name, value in zip(node.output, values):
            tensor = numpy_helper.from_array(np.asarray(value), name)
            initialisers[name] = tensor
            graph.initializer.append(tensor)
    del graph.node[:]
    graph.node.extend(kept)


def _constant_outputs(
    node: onnx.NodeProto,
    initialisers: dict[str, onnx.TensorProto],
    graph_outputs: set[str],
    model: onnx.ModelProto,
) -> list[np.ndarray] | None:
    """Return the values of a foldable node's outputs, or None to keep the node."""
    if node.op_type in _NEVER_FOLDED or node.domain not in ("", "ai.onnx"):
        return None
    if any(output in graph_outputs for output in node.output):
        return None
    if any(name and name not in initialisers for name in node.input):
        return None
    used = [initialisers[name] for name in node.input if name]
    if sum(tensor.ByteSize() for tensor in used) > _MAX_FOLDED_BYTES:
        return None
    return _evaluate(node, used, model)


def _evaluate(
    node: onnx.NodeProto, inputs: list[onnx.TensorProto], model: onnx.ModelProto
) -> list[np.ndarray] | None:
    graph = onnx.helper.make_graph(
        [node], "constant", [], [onnx.ValueInfoProto(name=name) for name in node.output], inputs
    )
    single = onnx.helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version
    )
    try:
        values = ReferenceEvaluator(single).run(None, {})
    except Exception:  # the evaluator raises any type; a node it cannot run is imported instead
        return None
    simple = all(isinstance(value, (np.ndarray, np.generic)) for value in values)
    return list(values) if simple else None
