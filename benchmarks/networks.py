"""Structures of ResNet-18, MobileNetV1 and MobileNetV2 as float ONNX, with seeded random weights.

They are subjects of compile times and cycles: shapes are those of the papers at 224 x 224, batch
norm is folded, names are those of the usual PyTorch models. Input `input`, output `logits`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = 1000

RESNET18_LAYERS = {
    "C1": "conv1",
    "C2": "layer1.0.conv1",
    "C3": "layer2.0.conv1",
    "C4": "layer2.0.downsample",
    "C5": "layer2.0.conv2",
    "C6": "layer3.0.conv1",
    "C7": "layer3.0.downsample",
    "C8": "layer3.0.conv2",
    "C9": "layer4.0.conv1",
    "C10": "layer4.0.downsample",
    "C11": "layer4.0.conv2",
}
"""The distinct convolutions of ResNet-18 under the numbers that papers give them, by node name."""

MOBILENET_V1 = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
    (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip
"""(output channels, stride) of each depthwise separable block; Howard et al. 2017, table 1."""

MOBILENET_V2 = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""(expansion, output channels, repeats, stride of the first); Sandler et al. 2018, table 2."""


def resnet18(size: int = 224) -> onnx.ModelProto:
    """Return ResNet-18 for square images of `size` pixels; He et al. 2015, table 1."""
    net = _Network(size)
    net.convolution("conv1", 64, 7, 2, activation="Relu")
    net.node("MaxPool", "maxpool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            _basic_block(
                net, f"layer{stage}.{block}", channels, 2 if stage > 1 and block == 0 else 1
            )
    return net.classifier("resnet18")


def _basic_block(net: _Network, name: str, channels: int, stride: int) -> None:
    entry, inside = net.value, net.channels
    net.convolution(f"{name}.conv1", channels, 3, stride, activation="Relu")
    net.convolution(f"{name}.conv2", channels, 3, 1)
    body, skip = net.value, entry
    if stride != 1 or inside != channels:
        net.value, net.channels = entry, inside
        net.convolution(f"{name}.downsample", channels, 1, stride)
        skip = net.value
    net.value = body
    net.node("Add", f"{name}.add", skip)
    net.node("Relu", f"{name}.relu")


def mobilenet_v1(size: int = 224) -> onnx.ModelProto:
    """Return MobileNetV1 of width 1 for square images of `size` pixels."""
    net = _Network(size)
    net.convolution("conv0", 32, 3, 2, activation="Clip")
    for index, (channels, stride) in enumerate(MOBILENET_V1, start=1):
        net.convolution(f"conv{index}.dw", net.channels, 3, stride, net.channels, "Clip")
        net.convolution(f"conv{index}.pw", channels, 1, 1, activation="Clip")
    return net.classifier("mobilenet_v1")


def mobilenet_v2(size: int = 224) -> onnx.ModelProto:
    """Return MobileNetV2 of width 1 for square images of `size` pixels."""
    net = _Network(size)
    net.convolution("features.0", 32, 3, 2, activation="Clip")
    index = 1
    for expansion, channels, repeats, first in MOBILENET_V2:
        for repeat in range(repeats):
            stride = first if repeat == 0 else 1
            _inverted_residual(net, f"features.{index}", expansion, channels, stride)
            index += 1
    net.convolution(f"features.{index}", 1280, 1, 1, activation="Clip")
    return net.classifier("mobilenet_v2")


def _inverted_residual(
    net: _Network, name: str, expansion: int, channels: int, stride: int
) -> None:
    skip, inside = net.value, net.channels
    if expansion != 1:
        net.convolution(f"{name}.expand", inside * expansion, 1, 1, activation="Clip")
    net.convolution(f"{name}.dw", net.channels, 3, stride, net.channels, "Clip")
    net.convolution(f"{name}.project", channels, 1, 1)
    if stride == 1 and inside == channels:
        net.node("Add", f"{name}.add", skip)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": resnet18,
    "mobilenet_v1": mobilenet_v1,
    "mobilenet_v2": mobilenet_v2,
}


class _Network:
    """Appends nodes; `value` is the current tensor and `channels` its channels."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.channels, self.value = size, 3, "input"
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)
        self._constant("six", np.float32(6))
        self._constant("zero", np.float32(0))

    def convolution(
        self, name: str, out: int, kernel: int, stride: int, groups: int = 1, activation: str = ""
    ) -> None:
        """Append a convolution padded to keep its centre, and an activation."""
        inside = self.channels // groups
        names = self._weights(name, (out, inside, kernel, kernel), inside * kernel * kernel)
        self.node(
            "Conv", name, *names, kernel_shape=[kernel, kernel], group=groups,
            strides=[stride, stride], pads=[kernel // 2] * 4,
        )  # fmt: skip
        self.channels = out
        if activation:
            limits = ("zero", "six") if activation == "Clip" else ()
            self.node(activation, f"{name}.{activation.lower()}", *limits)

    def classifier(self, name: str) -> onnx.ModelProto:
        """Append pooling and the dense layer, and return the checked model."""
        self.node("GlobalAveragePool", "avgpool")
        self.node("Flatten", "flatten", axis=1)
        names = self._weights("fc", (CLASSES, self.channels), self.channels)
        self.node("Gemm", "logits", *names, transB=1)
        self.nodes[-1].name = "fc"
        shape = [1, 3, self.size, self.size]
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def node(self, kind: str, output: str, *inputs: str, **attributes: object) -> None:
        """Append a node that reads the current tensor first."""
        made = helper.make_node(kind, [self.value, *inputs], [output], name=output, **attributes)
        self.nodes.append(made)
        self.value = output

    def _weights(self, name: str, shape: tuple[int, ...], fan_in: int) -> tuple[str, str]:
        """Add weights that keep the variance (He et al. 2015) and a small bias."""
        weight = self._random.normal(0, np.sqrt(2 / fan_in), shape).astype(np.float32)
        bias = self._random.normal(0, 0.1, shape[0]).astype(np.float32)
        return self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)

    def _constant(self, name: str, value: np.ndarray | np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.array(value), name))
        return name
