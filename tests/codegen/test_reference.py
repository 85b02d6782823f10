"""The references stand apart from the simulator, and say what the frameworks do."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen import arithmetic, reference
from codegen.arithmetic import fixed_point, rescale
from codegen.reference import Slide
from runtime_sim.numerics import quantize_multiplier
from tests.source import imported_modules, read


@pytest.mark.parametrize("module", [arithmetic, reference])
def test_references_import_nothing_of_the_simulator(module: object) -> None:
    path = f"codegen/{module.__name__.rpartition('.')[2]}.py"  # type: ignore[attr-defined]
    names = {name for name, _ in imported_modules(ast.parse(read(path)), "codegen")}
    ours = {name for name in names if name.split(".")[0] in ("codegen", "runtime_sim", "tvm_vnpu")}
    assert ours <= {
        "codegen.arithmetic",
        *(f"codegen.arithmetic.{name}" for name in vars(arithmetic)),
    }


@given(st.floats(0, 2.0**29) | st.floats(2.0**-40, 2.0**-28))
def test_both_multiplier_formulas_agree(real: float) -> None:
    q, s = fixed_point(np.array([real]))
    ours, theirs = (int(q[0]), int(s[0])), quantize_multiplier([real])
    assert ours == (int(theirs[0][0]), int(theirs[1][0]))


@pytest.mark.parametrize(
    ("mode", "values"),
    [
        ("SINGLE_UP", [-2, -1, -1, 0, 1, 2, 3]),
        ("TFLITE_DOUBLE", [-3, -1, -1, 0, 2, 2, 3]),
        ("TFLITE_RUY", [-2, -1, -1, 0, 2, 2, 3]),
        ("HALF_AWAY_F64", [-3, -1, -1, 0, 1, 2, 3]),
        ("FLOAT_RNE", [-2, -1, -1, 0, 1, 2, 2]),
        ("TONEAREST", [-3, -1, -1, 0, 1, 2, 3]),
    ],
)
def test_each_mode_rounds_ties_its_own_way(mode: str, values: list[int]) -> None:
    """5 / 4 is 2 where TFLite rounds twice: 5 / 2 to 3, then 3 / 2 to 2."""
    sums = np.array([-10, -5, -4, 0, 5, 6, 10])
    found = rescale(sums, mode, np.array(0.25)).astype(int).tolist()
    assert found == values


def test_a_window_sees_padding_and_strides() -> None:
    x = np.arange(1, 6).reshape(5, 1, 1)
    rows = Slide(out=3, kernel=3, stride=2, dilation=1, pad=1)
    seen = reference.taps(x, rows, Slide(1, 1), fill=9)[..., 0, 0].T.tolist()
    assert seen == [[9, 1, 2], [2, 3, 4], [4, 5, 9]]


def test_not_a_number_becomes_the_zero_point() -> None:
    real = np.array([np.nan, np.inf, -np.inf, 0.5, 1.5], np.float32)
    assert reference.quantize(real, 1.0, 3, "int8", True).tolist() == [3, 127, -128, 3, 5]
    assert reference.quantize(real, 1.0, 3, "int8", False).tolist() == [3, 127, -128, 4, 5]
