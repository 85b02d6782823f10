"""Small float models for the artefact and command tests, and data that fits them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from tests.relax.onnx_models import Shape, make_model, random_values


def classifier(batch: int | str = 1, height: int | str = 8) -> onnx.ModelProto:
    """Return conv, relu, mean, dense: input `image` (batch, 1, height, 8), output `scores` of 6."""
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], name="first/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="first/Relu"),
        helper.make_node("ReduceMean", ["r"], ["m"], name="mean", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["m", "v"], ["scores"], name="fc", transB=1),
    ]
    constants = {"w": random_values(8, 1, 3, 3), "v": random_values(6, 8, seed=1)}
    shape: Shape = (batch, 1, height, 8)
    return make_model(nodes, {"image": shape}, ["scores"], constants)


def two_by_two() -> onnx.ModelProto:
    """Return a model with inputs `x/in:0`, `y.b` and outputs `out/a.0`, `sum`."""
    nodes = [
        helper.make_node("Conv", ["x/in:0", "w"], ["out/a.0"], name="a/conv"),
        helper.make_node("Add", ["out/a.0", "y.b"], ["sum"], name="a/add"),
    ]
    shapes: dict[str, Shape] = {"x/in:0": (1, 2, 4, 4), "y.b": (1, 3, 4, 4)}
    return make_model(nodes, shapes, ["out/a.0", "sum"], {"w": random_values(3, 2, 1, 1)})


def wide() -> onnx.ModelProto:
    """Return one convolution of 512 channels, of which no tile fits a scratchpad of 1 KiB."""
    nodes = [helper.make_node("Conv", ["image", "w"], ["scores"], name="wide/Conv")]
    constants = {"w": random_values(8, 512, 3, 3)}
    return make_model(nodes, {"image": (1, 512, 4, 4)}, ["scores"], constants)


def images(count: int = 6, height: int = 8) -> NDArray[Any]:
    """Return inputs of `classifier`."""
    return random_values(count, 1, height, 8, seed=2)


def write(folder: Path, model: onnx.ModelProto, name: str = "model.onnx") -> Path:
    """Save a model and return its path."""
    path = folder / name
    onnx.save(model, str(path))
    return path


def write_npz(path: Path, **arrays: NDArray[Any]) -> Path:
    """Save arrays and return the path."""
    np.savez(path, **arrays)
    return path
