"""Bit layout of every command, derived from the instruction table and checked at import."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from runtime_sim.isa.fields import COMMAND_WORDS, HEADER, WORD_BITS, Field, Instruction
from runtime_sim.isa.table import INSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a field stands: bits [`low_bit`, `low_bit` + field.bits) of 64-bit word `word`."""

    field: Field
    word: int
    low_bit: int

    @property
    def mask(self) -> int:
        """Return the field's mask before shifting."""
        return (1 << self.field.bits) - 1


def _place(fields: tuple[Field, ...]) -> tuple[Slot, ...]:
    """Lay fields out in order; a field never straddles two words."""
    slots, word, bit = [], 0, 0
    for field in fields:
        if bit + field.bits > WORD_BITS:
            word, bit = word + 1, 0
        slots.append(Slot(field, word, bit))
        bit += field.bits
    if word >= COMMAND_WORDS:
        raise ValueError(f"fields need {word + 1} words, a command has {COMMAND_WORDS}")
    return tuple(slots)


def _check_unique(instructions: tuple[Instruction, ...]) -> None:
    for attribute in ("opcode", "mnemonic"):
        values = [getattr(row, attribute) for row in instructions]
        if len(set(values)) != len(values):
            raise ValueError(f"instruction table: a {attribute} is used twice in {values}")
    for row in instructions:
        names = [field.name for field in (*HEADER, *row.fields)]
        if len(set(names)) != len(names):
            raise ValueError(f"instruction table: {row.mnemonic} names a field twice in {names}")


def _check_bits(mnemonic: str, slots: tuple[Slot, ...]) -> None:
    used = [0] * COMMAND_WORDS
    for slot in slots:
        bits = slot.mask << slot.low_bit
        if used[slot.word] & bits:
            raise ValueError(
                f"{mnemonic}.{slot.field.name}: bits of word {slot.word} assigned twice"
            )
        used[slot.word] |= bits


def _build() -> dict[int, dict[str, Slot]]:
    _check_unique(INSTRUCTIONS)
    table = {}
    for row in INSTRUCTIONS:
        slots = _place((*HEADER, *row.fields))
        _check_bits(row.mnemonic, slots)
        table[row.opcode] = {slot.field.name: slot for slot in slots}
    return table


SLOTS = MappingProxyType(_build())
"""opcode -> field name -> slot."""

BY_OPCODE = MappingProxyType({row.opcode: row for row in INSTRUCTIONS})
BY_MNEMONIC = MappingProxyType({row.mnemonic: row for row in INSTRUCTIONS})


def reserved_masks(opcode: int) -> tuple[int, ...]:
    """Return, for each of the command's 64-bit words, the bits that no field owns."""
    used = [0] * COMMAND_WORDS
    for slot in SLOTS[opcode].values():
        used[slot.word] |= slot.mask << slot.low_bit
    return tuple((1 << WORD_BITS) - 1 ^ bits for bits in used)
