"""A tensor may be joined to itself: merged plans then read the same elements for every part."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.graph import NpuGraph, QuantParams, Tensor
from codegen.ops.concat import Concat
from codegen.ops.convert import rescale_values
from codegen.profiles import profile
from codegen.program import build_program
from runtime_sim.machine import Machine
from runtime_sim.npu import load

NPU = load("vnpu-256")


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [
        ((4, 4, 1), 2, 2), ((1, 1, 1), 2, 3), ((5, 3, 1), 2, 4), ((4, 4, 3), 2, 2),
        ((4, 4, 1), 0, 2), ((1, 4, 2), 0, 3), ((3, 1, 4), 1, 2),
    ],
)  # fmt: skip
def test_a_tensor_joined_to_itself(
    shape: tuple[int, int, int], axis: int, count: int, merge: bool
) -> None:
    rules, whole = profile("integer"), list(shape)
    whole[axis] *= count
    x = Tensor("x", (1, *shape), "int8", QuantParams(0.05, 3))
    y = Tensor("y", (1, *whole), "int8", QuantParams(0.06, -2))
    values = tuple(rescale_values(x, y, rules) for _ in range(count))
    join = Concat(
        name="join", inputs=(x,) * count, outputs=(y,), axis=axis, rounding=rules.rounding,
        values=values,
    )  # fmt: skip
    program = build_program(NpuGraph("join", (join,), (x,), (y,), "integer"), NPU)
    data = np.random.default_rng(0).integers(-128, 128, x.shape).astype(np.int8)
    result = np.zeros(y.nbytes, np.uint8)
    regions = {
        0: program.constants,
        1: np.zeros(max(1, program.arena_bytes), np.uint8),
        2: data.reshape(-1).view(np.uint8),
        3: result,
    }
    Machine(NPU).execute(program.assemble().words, regions, merge=merge)
    expected = join.reference(*[data] * count)
    np.testing.assert_array_equal(result.view(np.int8).reshape(y.shape), expected)
