"""What a compiled kernel calls: execute a stream on memory that the caller owns.

`run` takes plain integers, so it serves any framework: buffers are addresses in this process, they
are viewed without a copy and results are written through.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim import npu
from runtime_sim.errors import VnpuError
from runtime_sim.isa.codec import Words, as_words
from runtime_sim.isa.fields import COMMAND_BYTES
from runtime_sim.machine import Machine
from runtime_sim.npu import NpuConfig
from runtime_sim.views import ARENA, CONSTANTS, FIRST_ARGUMENT, REGIONS

Bytes = NDArray[np.uint8]
MAX_ARGUMENTS = REGIONS - FIRST_ARGUMENT


class DriverError(VnpuError):
    """A call hands over buffers that the driver cannot use."""


def run(
    stream: int,
    commands: int,
    config: str,
    constants: int,
    constants_bytes: int,
    arena_bytes: int,
    arguments: Sequence[int],
    argument_bytes: Sequence[int],
    *,
    batch: int = 1,
    batch_strides: Sequence[int] | None = None,
) -> None:
    """Execute `commands` commands at address `stream`, `batch` times.

    `config` is the NPU configuration as JSON. `arguments` are the addresses of regions 2, 3, ...
    (inputs, then outputs), `argument_bytes` their sizes for one image; for image n the address of
    argument i is advanced by n * batch_strides[i] bytes (default: its size). Everything is read and
    written in place. Raises VnpuError: DriverError for unusable buffers, else as Machine.execute.
    """
    words = foreign_bytes(stream, commands * COMMAND_BYTES, "command stream").view("<u8")
    _check_arguments(len(arguments), batch, argument_bytes, batch_strides)
    strides = argument_bytes if batch_strides is None else batch_strides
    machine = _machine(config)
    regions = {
        CONSTANTS: foreign_bytes(constants, constants_bytes, "constants"),
        ARENA: np.zeros(arena_bytes, np.uint8),
    }
    execution = None
    for image in range(batch):
        for i, (address, size) in enumerate(zip(arguments, argument_bytes)):
            where = address + image * strides[i]
            regions[FIRST_ARGUMENT + i] = foreign_bytes(where, size, f"argument {i}")
        execution = execution or machine.prepare(as_words(words), regions)
        execution(regions)


def run_arrays(
    stream: bytes | Words,
    config: NpuConfig,
    constants: bytes | NDArray[Any],
    arena_bytes: int,
    arguments: Sequence[NDArray[Any]],
    *,
    batch: int = 1,
) -> None:
    """Execute a stream on NumPy arrays: inputs, then outputs (written in place).

    With `batch` above 1 every argument has a leading axis of that length and the stream runs once
    for each of its rows. Arrays are C-contiguous and outputs writable. Raises as `run`.
    """
    flat = [_flat(array, f"argument {i}") for i, array in enumerate(arguments)]
    sizes = [array.nbytes // batch for array in flat] if batch > 0 else []
    _check_arguments(len(flat), batch, sizes, None)
    machine, words = Machine(config), as_words(stream)
    regions = {CONSTANTS: _flat(constants, "constants"), ARENA: np.zeros(arena_bytes, np.uint8)}
    execution = None
    for image in range(batch):
        for i, (array, size) in enumerate(zip(flat, sizes)):
            regions[FIRST_ARGUMENT + i] = array[image * size : (image + 1) * size]
        execution = execution or machine.prepare(words, regions)
        execution(regions)


def foreign_bytes(address: int, size: int, what: str) -> Bytes:
    """Return `size` bytes at `address` of this process as a writable uint8 array, not copied.

    Raises DriverError for a null address or a negative size.
    """
    if size == 0:
        return np.zeros(0, np.uint8)
    if size < 0 or address <= 0:
        raise DriverError(
            f"{what} is not in memory",
            seen=f"address 0x{address:x}, {size} bytes",
            fix="pass the address of an allocated buffer",
        )
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _flat(data: bytes | NDArray[Any], what: str) -> Bytes:
    if isinstance(data, bytes):
        return np.frombuffer(data, np.uint8)
    if not data.flags.c_contiguous:
        raise DriverError(
            f"{what} is not contiguous",
            seen=f"strides {data.strides} for shape {data.shape}",
            fix="pass a C-contiguous array",
        )
    return data.reshape(-1).view(np.uint8)


def _check_arguments(
    count: int, batch: int, sizes: Sequence[int], strides: Sequence[int] | None
) -> None:
    if batch < 1:
        raise DriverError("batch is empty", seen=batch, limit="at least 1")
    if count > MAX_ARGUMENTS:
        raise DriverError("too many arguments", seen=count, limit=MAX_ARGUMENTS)
    for name, values in (("argument sizes", sizes), ("batch strides", strides)):
        if values is not None and len(values) != count:
            raise DriverError(f"{name} do not match the arguments", seen=len(values), limit=count)


@lru_cache(maxsize=32)
def _machine(config: str) -> Machine:
    return Machine(npu.from_json(config))
