"""Compare the two back ends of the kernel IR: compiled C and the assembler."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codegen.assemble import assemble_program
from codegen.compile_c import emitted_streams
from codegen.controller import lower_program
from codegen.emit_c import emit_programs
from codegen.kernel import Kernel
from runtime_sim.isa.codec import Words, decode
from runtime_sim.npu import NpuConfig


def check_same_streams(entries: Mapping[str, Kernel], npu: NpuConfig) -> dict[str, Words]:
    """Return the stream of every entry (symbol -> entry) after checking C against the assembler.

    All entries are compiled at once, with warnings as errors.
    """
    programs = {symbol: lower_program(entry, npu) for symbol, entry in entries.items()}
    compiled = emitted_streams(emit_programs(programs), list(programs))
    assembled = {symbol: assemble_program(program).words for symbol, program in programs.items()}
    for symbol, words in assembled.items():
        assert_equal_streams(symbol, words, compiled[symbol])
    return assembled


def assert_equal_streams(symbol: str, assembled: Words, compiled: Words) -> None:
    """Fail with the first command and the fields in which two streams differ."""
    if assembled.tobytes() == compiled.tobytes():
        return
    shared = min(len(assembled), len(compiled))
    rows = np.flatnonzero(np.any(assembled[:shared] != compiled[:shared], axis=1))
    if not rows.size:
        raise AssertionError(
            f"{symbol}: {len(assembled)} commands assembled, {len(compiled)} from C"
        )
    first = int(rows[0])
    left, right = (decode(words[first : first + 1])[0] for words in (assembled, compiled))
    fields = {name: (left[name], right.get(name)) for name in left if left[name] != right.get(name)}
    raise AssertionError(f"{symbol}: command {first} differs (assembled, compiled C): {fields}")
