"""What derives from the instruction table: the disassembly and the reference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from runtime_sim.isa import generate
from runtime_sim.isa.codec import encode
from runtime_sim.isa.disasm import disassemble
from runtime_sim.isa.rules import RULES
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.verify import STREAM_RULES
from tests.runtime_sim.streams import add, conv, load, mask, maxpool, requant, store, stream


def test_disassembly(golden: Callable[[str, str], None]) -> None:
    words = stream(
        load(64, region=2, offset=4096, spm=32, post=mask(0, 31), issue=12),
        conv(wait=mask(0), post=mask(1), in_zp=-7),
        requant(acc=16, params=512, out=64, wait=mask(1), rounding=4),
        add(a=0, b=8, out=16, b_type=1),
        maxpool(w=6, kw=3),
        encode("FENCE"),
        encode("COUNTER", id=3),
        store(64, region=3, wait=mask(31)),
    )
    golden("disassembly.txt", disassemble(words))


def test_an_empty_stream_disassembles_to_nothing() -> None:
    assert disassemble(b"") == ""


def test_the_reference_names_everything(repository: Path) -> None:
    (text,) = generate.generate(repository).values()
    for row in INSTRUCTIONS:
        assert f"## {row.mnemonic}\n" in text
        assert all(f"`{field.name}`" in text for field in row.fields)
    for rule in (*(rule.__name__ for rule in RULES), *STREAM_RULES):
        assert f"**{rule}**" in text


def test_the_reference_is_fresh(repository: Path) -> None:
    for path, text in generate.generate(repository).items():
        assert path.read_text(encoding="utf-8") == text
