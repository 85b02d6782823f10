"""The float forms of requantisation equal the formulas, at every step and at every extreme."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from runtime_sim import numerics
from runtime_sim.isa.fields import Rounding
from runtime_sim.merge.requantizing import _Even, _Up, joined, thresholds
from runtime_sim.numerics import Records

CHANNELS = 24


def draw(random: Random, rounding: int) -> tuple[dict[str, int], Records, np.ndarray]:
    """Return a command's fields, records of CHANNELS channels and a bound of the sums of each."""
    low, high = random.choice(((-128, 127), (0, 255), (-128, 20), (3, 200)))
    f = {"rounding": rounding, "out_zp": random.randrange(-140, 260), "lo": low, "hi": high}
    small = random.random() < 0.5
    bias = [random.randrange(-(1 << (18 if small else 30)), 1 << (18 if small else 30))
            for _ in range(CHANNELS)]  # fmt: skip
    raw = np.array([random.randrange(1, 1 << random.randrange(3, 24)) for _ in range(CHANNELS)])
    if rounding == Rounding.FLOAT_RNE:
        scale = np.array([2.0 ** random.uniform(-22, 2) for _ in range(CHANNELS)], np.float32)
        return f, Records(np.array(bias) >> 8, scale=scale), raw
    multiplier = [random.choice((0, random.randrange(1 << 30, 1 << 31))) if random.random() < 0.1
                  else random.randrange(1 << 30, 1 << 31) for _ in range(CHANNELS)]  # fmt: skip
    shift = [random.randrange(-31 if random.random() < 0.3 else -12, 1) for _ in range(CHANNELS)]
    return f, Records(np.array(bias), np.array(multiplier), np.array(shift)), raw


def sums_to_try(random: Random, raw: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return sums (n, CHANNELS) within +-raw: extremes, around steps of the result, and others."""
    near = np.concatenate([steps + d for d in (-1, 0, 1)])
    other = np.random.default_rng(random.randrange(1 << 30)).integers(
        -raw, raw + 1, (200, CHANNELS)
    )
    fixed = np.stack([-raw, raw, np.zeros_like(raw)])
    return np.clip(np.concatenate([near, other, fixed]), -raw, raw)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_up(dtype: type) -> None:
    random, proven = Random(5), 0
    for _ in range(150):
        f, records, raw = draw(random, Rounding.SINGLE_UP)
        assert records.multiplier is not None and records.shift is not None
        up = _Up(f, records, records.bias, raw, np.dtype(dtype))
        proven += up.exact
        if not up.exact:
            continue
        levels = [random.randrange(f["lo"], f["hi"] + 2) for _ in range(12)]
        steps = np.stack([
            thresholds(records.multiplier, 31 - records.shift, level - f["out_zp"]) - records.bias
            for level in levels
        ])  # fmt: skip
        check(up, f, records, sums_to_try(random, raw, steps), dtype)
    assert proven > 120


@pytest.mark.parametrize("exact", [True, False])
def test_float_even(exact: bool) -> None:
    random = Random(6)
    for _ in range(150):
        f, records, raw = draw(random, Rounding.FLOAT_RNE)
        if not exact:
            records = Records(records.bias << 7, scale=records.scale)
        sums = sums_to_try(random, raw % (1 << 23), np.zeros((1, CHANNELS), np.int64))
        even = _Even(f, records, records.bias, exact)
        check(even, f, records, sums, np.float32)


def check(
    finish: object, f: dict[str, int], records: Records, sums: np.ndarray, kind: type
) -> None:
    expected = numerics.requantize_records(
        sums, records, f["rounding"], f["out_zp"], f["lo"], f["hi"]
    )
    joint = joined(CHANNELS)
    padded = np.zeros((-(-len(sums) // joint) * joint, CHANNELS), kind)
    padded[: len(sums)] = sums
    out = np.zeros((len(sums), 1, CHANNELS), np.int8 if f["lo"] < 0 else np.uint8)
    finish(padded, out)  # type: ignore[operator]
    np.testing.assert_array_equal(out[:, 0], expected, str((f, records)))


def test_an_inexact_step_is_found() -> None:
    """The check of each step is what rejects a factor that is off in its last bits."""
    f = {"rounding": Rounding.SINGLE_UP, "out_zp": 0, "lo": -128, "hi": 127}
    q, shift = np.array([3 << 29]), np.array([-20])
    raw = np.array([(1 << 24) - 1])
    up = _Up(f, Records(np.array([0]), q, shift), np.array([0]), raw, np.dtype(np.float64))
    assert up.exact and up._proven(0, int(q[0]), 51, 0, int(raw[0]), f)
    up._scale = up._scale * (1 - 2.0**-20)
    assert not up._proven(0, int(q[0]), 51, 0, int(raw[0]), f)
