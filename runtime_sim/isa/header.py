"""Generate `vnpu.h`, the C intrinsics, from the instruction table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runtime_sim.isa.cost import CONTROLLER_COST
from runtime_sim.isa.fields import COMMAND_WORDS, HEADER, Instruction
from runtime_sim.isa.layout import SLOTS
from runtime_sim.isa.table import INSTRUCTIONS, ISA_VERSION

INCLUDE_DIR = Path(__file__).resolve().parent / "include"
"""The folder to give a C compiler with -I."""

_GENERATED = "Generated from table.py and vnpu.h.in by `python -m scripts.regen`: do not edit."
_NOT_REGISTERS = ("opcode", "issue")
_REGISTERS_PER_OPCODE = 64


def generate(root: Path) -> dict[Path, str]:
    """Return {path of vnpu.h under `root`: its text}."""
    folder = root / "runtime_sim" / "isa" / "include"
    template = (folder / "vnpu.h.in").read_text(encoding="utf-8")
    return {folder / "vnpu.h": render(template)}


def render(template: str) -> str:
    """Fill in the template of vnpu.h."""
    issue = next(field for field in HEADER if field.name == "issue")
    for name, text in {
        "GENERATED": _GENERATED,
        "VERSION": str(ISA_VERSION),
        "WORDS": str(COMMAND_WORDS),
        "COMMAND_CYCLES": str(CONTROLLER_COST.command),
        "FIELD_CYCLES": str(CONTROLLER_COST.field),
        "VARIABLE_CYCLES": str(CONTROLLER_COST.variable_field),
        "ISSUE_MAX": hex(issue.maximum),
        "OPCODES": str(max(SLOTS) + 1),
        "CHOICES": "\n".join(_choices()),
        "INSTRUCTIONS": "\n\n".join("\n".join(_instruction(row)) for row in INSTRUCTIONS),
    }.items():
        template = template.replace(f"@{name}@", text)
    return template


def choice_names() -> dict[str, int]:
    """Return the C name and value of every member of the enumerations that fields use.

    Raises ValueError if one name would stand for two values.
    """
    names: dict[str, int] = {}
    for row in INSTRUCTIONS:
        for choice in (choice for field in row.fields for choice in field.choices):
            if names.setdefault(f"VNPU_{choice.name}", int(choice)) != int(choice):
                raise ValueError(f"VNPU_{choice.name} has two values: rename one")
    return names


def _choices() -> Iterator[str]:
    yield "enum vnpu_choice {"
    yield ",\n".join(f"    {name} = {value}" for name, value in choice_names().items())
    yield "};"


def _instruction(row: Instruction) -> Iterator[str]:
    yield f"/* {row.mnemonic} ({row.queue.name}): {row.summary} */"
    registers = [slot for name, slot in SLOTS[row.opcode].items() if name not in _NOT_REGISTERS]
    if len(registers) >= _REGISTERS_PER_OPCODE:
        raise ValueError(f"{row.mnemonic} has {len(registers)} registers: at most 63")
    for index, slot in enumerate(registers, 1):
        field = slot.field
        description = (
            f"{row.opcode:#04x}, {index}, {slot.word}, {slot.low_bit}, {field.bits}, "
            f"{int(field.signed)}"
        )
        yield f"#define VNPU_{row.mnemonic}_{field.name} VNPU_REGISTER({description})"
    yield (
        f"static inline void vnpu_{row.mnemonic.lower()}(vnpu_t *vnpu) "
        f"{{ vnpu_issue(vnpu, {row.opcode:#04x}); }}"
    )
