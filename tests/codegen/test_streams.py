"""Compiled C and the assembler give the same stream for random kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from codegen.assemble import assemble
from codegen.compile_c import emitted_stream
from codegen.emit_c import emit_c
from codegen.expr import const, var
from codegen.kernel import Call, Kernel, Loop, command, instr
from runtime_sim.isa.codec import decode
from runtime_sim.isa.layout import BY_OPCODE
from runtime_sim.npu import load
from tests.codegen.random_kernels import interpret, random_entry
from tests.codegen.streams import assert_equal_streams, check_same_streams

BATCH = 16
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(seed=seeds, memory=st.sampled_from([100, 300, 4096]))
def test_compiled_c_equals_the_assembler(seed: int, memory: int) -> None:
    npu = replace(load("vnpu-256"), instruction_memory=memory)
    names = [f"entry{index}" for index in range(BATCH)]
    entries = {name: random_entry(seed + index, name) for index, name in enumerate(names)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("codegen.emit_c.MAX_KERNEL_LINES", 5000)
        check_same_streams(entries, npu)


@settings(max_examples=100)
@given(seed=seeds)
def test_the_assembler_reads_the_ir_as_it_stands(seed: int) -> None:
    entry = random_entry(seed)
    found = []
    for fields in decode(assemble(entry, load("vnpu-256")).words):
        mnemonic = BY_OPCODE[fields.pop("opcode")].mnemonic
        del fields["issue"]
        found.append((mnemonic, fields))
    assert found == list(interpret(entry.body, {}))


def _counting_entry() -> Kernel:
    body = (Loop("i", const(3), (instr("COUNTER", id=var("i")),)),)
    kernel = Kernel("count", ("sem",), body)
    return Kernel("entry", (), (Call(kernel, {"sem": const(0)}), command("END")))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("VNPU_ITERATION(6)", "VNPU_ITERATION(7)", r"command 0 differs .*'issue': \(18, 19\)"),
        ("VAR(COUNTER, id, i)", "VAR(COUNTER, id, i + 1)", r"command 0 differs .*'id': \(0, 1\)"),
        ("VAR(COUNTER, id, i)", "SET(COUNTER, id, i)", r"'issue': \(18, 16\)"),
        ("i < 3", "i < 4", r"command 3 differs .*'opcode'"),
        ("vnpu_end(vnpu);", "", "4 commands assembled, 3 from C"),
    ],
)
def test_a_mismatch_is_caught(old: str, new: str, complaint: str) -> None:
    entry = _counting_entry()
    source = emit_c(entry, load("vnpu-256"), "net")
    assert old in source
    compiled = emitted_stream(source.replace(old, new), "net")
    with pytest.raises(AssertionError, match=complaint):
        assert_equal_streams("net", assemble(entry, load("vnpu-256")).words, compiled)
