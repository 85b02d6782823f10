"""The driver as compiled regions call it: a function of integers, found by name."""

from __future__ import annotations

import ctypes
import json
from functools import lru_cache

from runtime_sim import driver

DRIVER_NAME = "vnpu.driver.run"
"""The global function that compiled regions call."""


@lru_cache(maxsize=64)
def _config(text: bytes) -> tuple[str, int]:
    """Return (NPU configuration as JSON, number of arguments) of a region's description."""
    table = json.loads(text)
    npu = json.dumps(table["npu"], sort_keys=True, separators=(",", ":"))
    return npu, int(table["arguments"])


def run_region(
    stream: int,
    commands: int,
    config: int,
    constants: int,
    constants_bytes: int,
    arena_bytes: int,
    table: int,
    batch: int,
) -> None:
    """Run a region: what its C entry calls, with integers only.

    `config` is the address of a JSON text that ends in a zero byte; `table` of one row of two
    int64 per argument: address and bytes of one image. Raises as `runtime_sim.driver.run`.
    """
    npu, count = _config(ctypes.string_at(config))
    rows = (ctypes.c_int64 * (2 * count)).from_address(table)
    driver.run(
        stream, commands, npu, constants, constants_bytes, arena_bytes,
        list(rows[0::2]), list(rows[1::2]), batch=batch,
    )  # fmt: skip
