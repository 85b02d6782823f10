"""Models from public bug reports, with their right answers, on the NPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.relax.regions import quantized, run_on_npu
from tvm_vnpu.relax import explain, from_onnx, load_onnx

CASES = Path(__file__).parents[1] / "cases"
QUANTISED = ("B01", "B02", "B05", "B07", "B11", "B15", "B25")


def _arrays(name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    with np.load(CASES / f"{name}.npz") as data:
        feeds = {key[3:]: data[key] for key in data.files if key.startswith("in_")}
        return feeds, data["out_0"]


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_case_runs_on_the_npu_with_the_right_values(name: str) -> None:
    mod = from_onnx(load_onnx(CASES / f"{name}.onnx"))
    feeds, expected = _arrays(name)
    assert {placement.device for placement in explain(mod).placements} == {"npu"}
    (result,) = run_on_npu(mod, feeds)
    np.testing.assert_array_equal(result, expected)


def test_tiny_weights_with_a_large_bias_keep_the_bias() -> None:
    """B13: the weight scale is raised, or the int32 bias would clip."""
    feeds, expected = _arrays("B13_float")
    mod = quantized(load_onnx(CASES / "B13_float.onnx"), feeds)
    (result,) = run_on_npu(mod, feeds)
    half_a_step = (5.0 + 4.5) / 255 / 2  # the output is int8 over [-4.5, 5]
    np.testing.assert_allclose(result, expected, rtol=0, atol=half_a_step * 1.001)
