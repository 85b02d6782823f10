"""Checks of arrays against a model's inputs."""

from __future__ import annotations

import numpy as np
import pytest

from runtime_sim.errors import VnpuError
from tvm_vnpu.artifact.spec import TensorSpec, check_inputs, sample_slice, samples_in

FIXED = TensorSpec("x", (2, 3), "float32")
SYMBOLIC = TensorSpec("y", (None, 3), "float32")


@pytest.mark.parametrize(
    ("spec", "shape", "samples"),
    [
        (FIXED, (2, 3), 1),
        (FIXED, (8, 3), 4),
        (FIXED, (3, 3), None),
        (FIXED, (2, 4), None),
        (FIXED, (2,), None),
        (FIXED, (0, 3), None),
        (SYMBOLIC, (5, 3), 5),
        (SYMBOLIC, (5, 2), None),
        (TensorSpec("s", (), "int64"), (), 1),
    ],
)
def test_samples_are_counted(spec: TensorSpec, shape: tuple[int, ...], samples: int | None) -> None:
    assert samples_in(spec, shape) == samples


def test_an_input_given_once_serves_every_sample() -> None:
    once, many = TensorSpec("a", (1, 2), "int8"), TensorSpec("b", (1, 2), "int8")
    arrays = {"a": np.zeros((1, 2), np.int8), "b": np.ones((3, 2), np.int8)}
    assert check_inputs([once, many], arrays) == 3
    assert sample_slice(once, arrays["a"], 2, 3).shape == (1, 2)
    assert sample_slice(many, arrays["b"], 1, 3).shape == (2, 2)


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        (
            {"z": np.zeros(1)},
            "the model has no input of this name: seen 'z'; limit the inputs are x, y; "
            "name the arrays after the model's inputs",
        ),
        (
            {"x": np.zeros((2, 3), np.float32)},
            "input 'y' is missing: seen x; name the arrays after the model's inputs",
        ),
        (
            {"x": np.zeros((2, 3)), "y": np.zeros((1, 3), np.float32)},
            "input 'x' has the wrong dtype: seen float64; limit float32; "
            "convert it with astype('float32')",
        ),
        (
            {"x": np.zeros((3, 3), np.float32), "y": np.zeros((1, 3), np.float32)},
            "input 'x' has the wrong shape: seen (3, 3); limit (2, 3), or a multiple along axis 0; "
            "reshape the array",
        ),
        (
            {"x": np.zeros((2, 3), np.float32), "y": np.zeros((1, 4), np.float32)},
            "input 'y' has the wrong shape: seen (1, 4); limit (N, 3); reshape the array",
        ),
        (
            {"x": np.zeros((8, 3), np.float32), "y": np.zeros((3, 3), np.float32)},
            "the inputs have different numbers of samples: seen x: 4, y: 3; "
            "give every input the same number",
        ),
    ],
)
def test_misfits_are_named(arrays: dict[str, np.ndarray], line: str) -> None:
    with pytest.raises(VnpuError) as caught:
        check_inputs([FIXED, SYMBOLIC], arrays)
    assert str(caught.value) == line
