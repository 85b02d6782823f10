"""The driver: foreign memory by address, batches, and calls it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from runtime_sim import driver, npu
from runtime_sim.driver import DriverError
from tests.runtime_sim.streams import add, load, mask, store, stream

CONFIG = npu.load("vnpu-64")
SUM = stream(
    load(16, region=2, post=mask(0)),
    load(16, region=0, spm=16, post=mask(0)),
    load(16, region=3, spm=32, post=mask(0)),
    add(a=0, b=16, out=48, c=16, wait=mask(0)),
    add(a=48, b=32, out=48, c=16, wait=mask(0), post=mask(1)),
    store(16, region=4, spm=48, wait=mask(1)),
)
X = np.arange(48, dtype=np.int8).reshape(3, 16)
Y = np.arange(16, dtype=np.int8) * 2
BIAS = np.full(16, 5, np.int8)


def test_addresses_are_read_and_written_in_place() -> None:
    out = np.zeros((3, 16), np.int8)
    driver.run(
        SUM.ctypes.data,
        len(SUM),
        CONFIG.to_json(),
        BIAS.ctypes.data,
        BIAS.nbytes,
        0,
        [X.ctypes.data, Y.ctypes.data, out.ctypes.data],
        [16, 16, 16],
        batch=3,
        batch_strides=[16, 0, 16],
    )
    np.testing.assert_array_equal(out, X + Y + BIAS)


def test_arrays() -> None:
    out = np.zeros(16, np.int8)
    driver.run_arrays(SUM, CONFIG, BIAS, 0, [X[1], Y, out])
    np.testing.assert_array_equal(out, X[1] + Y + BIAS)
    batched = np.zeros((3, 16), np.int8)
    repeated = np.repeat(Y[None], 3, axis=0)
    driver.run_arrays(SUM.tobytes(), CONFIG, BIAS.tobytes(), 0, [X, repeated, batched], batch=3)
    np.testing.assert_array_equal(batched, X + Y + BIAS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"constants": 0},
            "constants is not in memory: seen address 0x0, 16 bytes; "
            "pass the address of an allocated buffer",
        ),
        ({"batch": 0}, "batch is empty: seen 0; limit at least 1"),
        ({"argument_bytes": [16]}, "argument sizes do not match the arguments: seen 1; limit 3"),
        ({"batch_strides": [16]}, "batch strides do not match the arguments: seen 1; limit 3"),
        (
            {"arguments": [1] * 15, "argument_bytes": [1] * 15},
            "too many arguments: seen 15; limit 14",
        ),
    ],
)
def test_refused_calls(change: dict[str, object], message: str) -> None:
    call: dict[str, object] = {
        "stream": SUM.ctypes.data,
        "commands": len(SUM),
        "config": CONFIG.to_json(),
        "constants": BIAS.ctypes.data,
        "constants_bytes": 16,
        "arena_bytes": 0,
        "arguments": [X.ctypes.data] * 3,
        "argument_bytes": [16] * 3,
    }
    with pytest.raises(DriverError) as error:
        driver.run(**{**call, **change})  # type: ignore[arg-type]
    assert str(error.value) == message


def test_an_array_that_is_not_contiguous() -> None:
    with pytest.raises(DriverError) as error:
        driver.run_arrays(SUM, CONFIG, BIAS, 0, [X[:, ::2]])
    assert str(error.value) == (
        "argument 0 is not contiguous: seen strides (16, 2) for shape (3, 8); "
        "pass a C-contiguous array"
    )
