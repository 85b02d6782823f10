"""Rounding modes, multipliers and records against exact integer and fraction arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_sim import numerics
from runtime_sim.isa.fields import Rounding
from runtime_sim.numerics import NumericsError
from tests.runtime_sim import reference as ref

INT32 = st.one_of(
    st.integers(ref.INT32_MIN, ref.INT32_MAX),
    st.integers(-70000, 70000),
    st.sampled_from([ref.INT32_MIN, ref.INT32_MAX, 0, -1, 1]),
)
FIXED = sorted(numerics.FIXED_POINT_MODES)


@given(
    st.lists(INT32, min_size=1, max_size=20), INT32, st.integers(-31, 30), st.sampled_from(FIXED)
)
def test_fixed_point_modes_equal_the_formulas(
    acc: list[int], multiplier: int, shift: int, mode: Rounding
) -> None:
    expected = [ref.scale_integer(a, multiplier, shift, mode) for a in acc]
    assert numerics.requantize(acc, multiplier, shift, mode).tolist() == expected


@given(st.integers(-(1 << 20), 1 << 20), st.integers(1, 20))
def test_ties_go_where_each_mode_says(numerator: int, exponent: int) -> None:
    """q = 2^30 and s = 1 - e halve e times: exact ties are common."""
    exact = Fraction(numerator, 1 << exponent)
    up = (exact + Fraction(1, 2)).__floor__()
    results = {
        mode: int(numerics.requantize(numerator, 1 << 30, 1 - exponent, mode))
        for mode in (Rounding.SINGLE_UP, Rounding.TONEAREST)
    }
    assert results == {Rounding.SINGLE_UP: up, Rounding.TONEAREST: ref.half_away(exact)}


def test_high_mul_saturates_once() -> None:
    low = np.int64(ref.INT32_MIN)
    assert numerics.doubling_high_mul(low, low) == ref.INT32_MAX


def test_float_modes_have_no_multiplier() -> None:
    with pytest.raises(NumericsError) as error:
        numerics.requantize(1, 1, 1, Rounding.FLOAT_RNE)
    assert str(error.value) == (
        "FLOAT_RNE takes a float scale, not a multiplier and a shift: "
        "limit one of SINGLE_UP, TFLITE_DOUBLE, TFLITE_RUY, TONEAREST"
    )


@given(st.floats(2.0**-32, 2.0**29, allow_nan=False))
def test_multiplier_is_the_nearest_31_bit_one(scale: float) -> None:
    q, s = (int(value) for value in numerics.quantize_multiplier(scale))
    represented = Fraction(q) * Fraction(2) ** (s - 31)
    assert 1 << 30 <= q < 1 << 31
    assert abs(represented - Fraction(scale)) <= Fraction(2) ** (s - 32)


def test_multiplier_edges() -> None:
    almost_one = float(np.nextafter(1.0, 0.0))
    scales = [0.0, 0.5, 1.0, almost_one, 2.0**-33, 2.0**-32, 2.0**30 - 1]
    q, s = numerics.quantize_multiplier(np.array(scales))
    half = 1 << 30
    assert q.tolist() == [0, half, half, half, 0, half, 2147483646]
    assert s.tolist() == [0, 0, 1, 1, 0, -31, 30]
    assert (q.dtype, s.dtype) == (np.int32, np.int8)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (-0.5, "scale is not a finite number from 0: seen -0.5"),
        (float("nan"), "scale is not a finite number from 0: seen nan"),
        (float("inf"), "scale is not a finite number from 0: seen inf"),
        (
            2.0**31,
            "scale is too large for a multiplier and a shift: seen 2147483648.0; "
            "limit below 2^30; check the quantisation scales of the operator",
        ),
    ],
)
def test_scales_without_a_multiplier(scale: float, message: str) -> None:
    with pytest.raises(NumericsError) as error:
        numerics.quantize_multiplier([0.5, scale])
    assert str(error.value) == message


@given(st.floats(-1e9, 1e9), st.booleans())
def test_round_half_away_is_exact(value: float, single: bool) -> None:
    x = np.float32(value) if single else np.float64(value)
    assert int(numerics.round_half_away(x)) == ref.half_away(Fraction(float(x)))


def test_round_half_away_of_the_largest_value_below_half() -> None:
    assert numerics.round_half_away(0.49999999999999994) == 0.0


FLOATS = st.floats(width=32)


@given(st.lists(FLOATS, min_size=1, max_size=20), st.integers(-200, 200), st.booleans())
def test_clamp_float_equals_exact_rounding(
    values: list[float], zero_point: int, ties_even: bool
) -> None:
    expected = [ref.float_to_integer(x, zero_point, -128, 127, away=not ties_even) for x in values]
    array = np.array(values, np.float32)
    assert numerics.clamp_float(array, zero_point, -128, 127, ties_even).tolist() == expected


@pytest.mark.parametrize("mode", list(Rounding))
@given(data=st.data())
def test_records_round_trip_and_requantise(mode: Rounding, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    draw = lambda values: data.draw(st.lists(values, min_size=count, max_size=count))  # noqa: E731
    bias, acc = draw(INT32), draw(INT32)
    if mode in numerics.FIXED_POINT_MODES:
        multiplier, shift = draw(INT32), draw(st.integers(-31, 30))
        packed = numerics.pack_records(bias, mode, multiplier=multiplier, shift=shift)
        records = numerics.unpack_records(packed, mode)
        assert records.multiplier is not None and records.multiplier.tolist() == multiplier
        assert records.shift is not None and records.shift.tolist() == shift
    else:
        packed = numerics.pack_records(bias, mode, scale=draw(st.floats(0, 2, width=32)))
        records = numerics.unpack_records(packed, mode)
    assert packed.shape == (count, 12) and records.bias.tolist() == bias
    f = {"rounding": mode, "out_zp": 3, "lo": -128, "hi": 127}
    expected = [ref.requantize(f, a, row.tobytes()) for a, row in zip(acc, packed)]
    assert numerics.requantize_records(acc, records, mode, 3, -128, 127).tolist() == expected


def test_records_want_the_parameters_of_their_mode() -> None:
    with pytest.raises(NumericsError) as error:
        numerics.pack_records([0], Rounding.FLOAT_RNE, multiplier=[1], shift=[0])
    assert str(error.value) == "records of FLOAT_RNE need scale: seen multiplier, shift"
    with pytest.raises(NumericsError) as error:
        numerics.pack_records([0], Rounding.SINGLE_UP, multiplier=[1], shift=[31])
    assert str(error.value) == (
        "shift of a parameter record is out of range: seen 31; limit -31..30"
    )


@given(st.integers(ref.INT32_MIN, ref.INT32_MAX))
def test_float_bits_round_trip(bits: int) -> None:
    value = numerics.float32_from_bits(bits)
    assert numerics.float32_bits(value) == bits or np.isnan(value)


@given(INT32, INT32)
def test_the_sum_with_a_bias_wraps(a: int, b: int) -> None:
    assert int(numerics.wrapping_add_int32(a, b)) == ref.wrap(a + b)
