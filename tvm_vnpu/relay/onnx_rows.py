"""Give sequences a row: TVM's importer takes quantised convolutions over images only.

What slides along one axis, of (N, C, L), becomes the same node over (N, C, 1, L). What follows
stays an image as long as its operators do not mind; a reshape makes it a sequence where one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import onnx
from onnx import helper, numpy_helper

WEIGHTS: Mapping[str, int] = MappingProxyType({"Conv": 1, "QLinearConv": 3, "ConvInteger": 1})
"""Operator -> which input is the weights."""
_POOLS = frozenset({"MaxPool", "AveragePool"})
_CONVERSIONS = frozenset({"QuantizeLinear", "DequantizeLinear"})
_THROUGH = frozenset({"Relu", "Clip", "GlobalAveragePool", *_CONVERSIONS})
"""What does with an image, given as its first input, what it does with the sequence."""
_TAPS = frozenset({"kernel_shape", "strides", "dilations"})
_SHAPES = MappingProxyType({"vnpu.image": (0, 0, 1, -1), "vnpu.sequence": (0, 0, -1)})
_IMAGE, _SEQUENCE = _SHAPES


def give_rows(graph: onnx.GraphProto, ranks: Mapping[str, int]) -> None:
    """Turn what slides along one axis into what slides along two, in place.

    `ranks`: tensor -> number of axes, for weights. Nodes of unknown rank stay as they are.
    """
    if not any(_is_sequence(node, ranks) for node in graph.node):
        return
    lift, leaving = _Lift(), [value.name for value in graph.output]
    for node in graph.node:
        if _is_sequence(node, ranks):
            lift.slide(node)
        elif _passes(node) and node.input[0] in lift.images and node.output[0] not in leaving:
            lift.through(node)
        else:
            lift.keep(node)
    for name in leaving:
        lift.require(name)
    del graph.node[:]
    graph.node.extend(lift.nodes)
    for name, shape in _SHAPES.items():
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), name))


def _is_sequence(node: onnx.NodeProto, ranks: Mapping[str, int]) -> bool:
    if node.op_type in WEIGHTS:
        return ranks.get(node.input[WEIGHTS[node.op_type]]) == 3
    kernel = next((a.ints for a in node.attribute if a.name == "kernel_shape"), ())
    return node.op_type in _POOLS and len(node.output) == 1 and len(kernel) == 1


def _passes(node: onnx.NodeProto) -> bool:
    axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
    return node.op_type in _THROUGH and axis in (0, 1)


class _Lift:
    """Rewrites nodes in order. `images`: sequence -> the tensor that has it as an image."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.images: dict[str, str] = {}
        self._made: set[str] = set()

    def slide(self, node: onnx.NodeProto) -> None:
        """Append a node that slides along a sequence, over images of one row."""
        lifted = _copy(node)
        lifted.input[0] = self._image(node.input[0], node.name)
        if node.op_type in WEIGHTS:
            place = WEIGHTS[node.op_type]
            lifted.input[place] = f"{node.name}/{node.input[place]}/image"
            self._reshape(node.input[place], lifted.input[place], _IMAGE, node.name)
        for attribute in lifted.attribute:
            ints = list(attribute.ints)
            if attribute.name in _TAPS:
                ints = [1, *ints]
            elif attribute.name == "pads":
                ints = [0, ints[0], 0, ints[1]]
            del attribute.ints[:]
            attribute.ints.extend(ints)
        self._append(lifted)

    def through(self, node: onnx.NodeProto) -> None:
        """Append a node that takes an image as it is."""
        for name in node.input[1:]:
            self.require(name)
        lifted = _copy(node)
        lifted.input[0] = self.images[node.input[0]]
        self._append(lifted)

    def keep(self, node: onnx.NodeProto) -> None:
        """Append a node of another kind: it gets sequences."""
        has_body = any(attribute.HasField("g") for attribute in node.attribute)
        for name in (*node.input, *(self.images if has_body else ())):
            self.require(name)
        self.nodes.append(node)

    def require(self, name: str) -> None:
        """Make a sequence of an image, unless it is made or has always been one."""
        if name in self.images and name not in self._made:
            self._made.add(name)
            self._reshape(self.images[name], name, _SEQUENCE, name)

    def _image(self, name: str, node: str) -> str:
        if name not in self.images:
            self.images[name] = f"{name}/image"
            self._made.add(name)
            self._reshape(name, self.images[name], _IMAGE, node)
        return self.images[name]

    def _append(self, lifted: onnx.NodeProto) -> None:
        output = lifted.output[0]
        lifted.output[0] = self.images[output] = f"{output}/image"
        self.nodes.append(lifted)

    def _reshape(self, source: str, result: str, shape: str, name: str) -> None:
        self.nodes.append(helper.make_node("Reshape", [source, shape], [result], name=name))


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
