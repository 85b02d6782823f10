"""Operands whose batch or rank differs from the result's stay on the CPU, with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.relax.onnx_models import make_model, random_values, run_module
from tests.relax.regions import quantized, run_on_npu
from tvm_vnpu.relax import explain

RANKS = "operands must have the result's rank: NumPy broadcasting would move the batch"
BATCHES = "operands must have the result's batch"


@pytest.mark.parametrize(
    ("x", "z", "reason"),
    [
        ((1, 4, 5, 4), (1, 4), f"{RANKS}: seen rank 2; limit 4"),
        ((1, 4, 4, 4), (1, 4, 4), f"{RANKS}: seen rank 3; limit 4"),
        ((4, 4, 4), (4, 4), f"{RANKS}: seen rank 2; limit 3"),
        ((3, 4, 5, 5), (1, 4, 5, 5), f"{BATCHES}: seen 1; limit 3"),
    ],
)
def test_an_addition_of_other_batches_or_ranks_keeps_its_values(
    x: tuple[int, ...], z: tuple[int, ...], reason: str
) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="left"),
        helper.make_node("Relu", ["z"], ["b"], name="right"),
        helper.make_node("Add", ["a", "b"], ["y"], name="add"),
    ]
    feeds = {"x": random_values(*x, seed=1), "z": random_values(*z, seed=2)}
    mod = quantized(make_model(nodes, {"x": list(x), "z": list(z)}, ["y"]), feeds)
    (add,) = [p for p in explain(mod).placements if p.node == "add"]
    assert (add.device, add.reason) == ("cpu", reason)
    (result,), (expected,) = run_on_npu(mod, feeds), run_module(mod, feeds)
    np.testing.assert_array_equal(result, expected)


def test_a_constant_without_a_batch_broadcasts_on_the_npu() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Add", ["a", "k"], ["y"], name="add"),
    ]
    feeds = {"x": random_values(3, 4, 5, 5, seed=1)}
    constants = {"k": random_values(4, 1, 1, seed=2)}
    mod = quantized(make_model(nodes, {"x": [3, 4, 5, 5]}, ["y"], constants), feeds)
    assert {p.device for p in explain(mod).placements} == {"npu"}
    (result,), (close,) = run_on_npu(mod, feeds), run_module(mod, feeds)
    np.testing.assert_allclose(result, close, atol=0.05)  # an output step: roundings differ
