"""Element-wise operators multiply by the scales that they hold, in machine and reference alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.evaluate import evaluate
from codegen.graph import QuantParams, Tensor
from codegen.ops.eltwise import Eltwise, eltwise
from codegen.profiles import profile
from runtime_sim.isa.fields import EltwiseOp
from runtime_sim.npu import load
from tests.codegen.harness import Case, check_all, graph_of

A, B, OUT = (float(np.float32(scale)) for scale in (0.1, 0.03, 0.007))
BY_PROFILE = {
    ("relay", EltwiseOp.ADD): (A / OUT, B / OUT, 1.0),
    ("relay", EltwiseOp.MUL): (1.0, 1.0, A * B / OUT),
    ("tflite", EltwiseOp.SUB): (0.5, B / (2 * A), 2 * A / (2**20 * OUT)),
    ("integer", EltwiseOp.MUL): (1.0, 1.0, A * B / OUT),
    ("onnx", EltwiseOp.MUL): (A, B, OUT),
}


def _operator(name: str, op: EltwiseOp, scales: tuple[float, ...] = (A, B, OUT)) -> Eltwise:
    a, b, out = (
        Tensor(label, (1, 1, 64, 64), "int8", QuantParams(scale, 0))
        for label, scale in zip("abo", scales, strict=True)
    )
    return eltwise("combine", op, (a, b, out), profile(name), (-128, 127))


@pytest.mark.parametrize(("name", "op"), BY_PROFILE)
def test_scales_are_those_of_the_profile(name: str, op: EltwiseOp) -> None:
    assert _operator(name, op).scales == pytest.approx(BY_PROFILE[name, op], rel=1e-15)


def test_the_reference_follows_a_scale_that_a_front_end_changes() -> None:
    """Where the ratio is a half, an odd product is a tie: a nudge of the ratio decides it."""
    operator = _operator("relay", EltwiseOp.MUL, (0.5, 0.5, 0.5))
    nudged = replace(operator, scales=(1.0, 1.0, 0.5 * (1 - 2.0**-25)))
    random = np.random.default_rng(3)
    inputs = list(random.integers(-11, 12, (2, 1, 1, 64, 64)).astype("int8"))
    check_all([Case("nudged", graph_of(nudged), load("vnpu-256"), inputs)])
    (exact,), (below,) = (evaluate(graph_of(each), inputs) for each in (operator, nudged))
    assert not np.array_equal(exact, below)
