"""vnpu.h: fresh, complete, and compilable for the simulator and for silicon."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import pytest

from codegen.compile_c import STRICT, check_syntax, emitted_stream
from codegen.emit_c import emit_c
from codegen.expr import const
from codegen.kernel import Instr, Kernel
from runtime_sim.isa import header
from runtime_sim.isa.codec import encode
from runtime_sim.isa.fields import DType, Field, Instruction, Queue
from runtime_sim.isa.layout import SLOTS
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.npu import load


def test_the_header_is_fresh(repository: Path) -> None:
    for path, text in header.generate(repository).items():
        assert path.read_text(encoding="utf-8") == text
        assert path.parent == header.INCLUDE_DIR


def test_every_register_has_a_setter_and_every_instruction_an_intrinsic(repository: Path) -> None:
    (text,) = header.generate(repository).values()
    for row in INSTRUCTIONS:
        assert f"static inline void vnpu_{row.mnemonic.lower()}(vnpu_t *vnpu)" in text
        for name in SLOTS[row.opcode]:
            assert (f"#define VNPU_{row.mnemonic}_{name} " in text) == (
                name not in ("opcode", "issue")
            )
    assert "@" not in text


def _every_field(value_of: str) -> Kernel:
    """Return an entry with each instruction once, all fields at their `minimum` or `maximum`."""
    body = []
    for row in INSTRUCTIONS:
        fields = {f.name: const(int(getattr(f, value_of))) for f in row.fields}
        body.append(Instr(row.mnemonic, fields | {"wait": const(2**32 - 1), "post": const(1)}))
    return Kernel("entry", (), tuple(body))


@pytest.mark.parametrize("value_of", ["minimum", "maximum"])
def test_setters_reach_the_ends_of_every_field(value_of: str) -> None:
    entry = _every_field(value_of)
    words = emitted_stream(emit_c(entry, load("vnpu-256"), "net"), "net")
    for node, command in zip(entry.body, words, strict=True):
        assert isinstance(node, Instr)
        values = {name: int(expr.args[0]) for name, expr in node.fields.items()}
        cycles = 4 + 2 * len(values)
        assert command.tobytes() == encode(node.mnemonic, issue=cycles, **values).tobytes()


def test_generated_c_compiles_for_silicon() -> None:
    text = emit_c(_every_field("maximum"), load("vnpu-256"), "net")
    check_syntax(text, flags=(*STRICT, "-pedantic", "-DVNPU_SILICON"))


def test_choice_names_stand_for_one_value() -> None:
    assert header.choice_names()["VNPU_U8"] == DType.U8


def test_two_values_of_one_choice_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    clash = IntEnum("Clash", {DType.U8.name: 77})
    row = Instruction("X", 1, Queue.VX, (Field("f", 8, "", choices=tuple(clash)),), "", "")
    monkeypatch.setattr(header, "INSTRUCTIONS", (*INSTRUCTIONS, row))
    with pytest.raises(ValueError, match="^VNPU_U8 has two values: rename one$"):
        header.choice_names()
