"""Generate docs/isa.md from the instruction table, the operand rules and the stream rules."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

from runtime_sim.isa.fields import COMMAND_BYTES, COMMAND_WORDS, HEADER, Field, Instruction, Queue
from runtime_sim.isa.layout import SLOTS, Slot
from runtime_sim.isa.rules import RULES
from runtime_sim.isa.table import INSTRUCTIONS, ISA_VERSION, SEMAPHORES
from runtime_sim.verify import STREAM_RULES

_INTRODUCTION = """\
<!-- Generated from runtime_sim/isa by `python -m scripts.regen`: do not edit. -->

# vNPU instruction set, version {version}

A command is {size} bytes: {words} little-endian 64-bit words. Fields are laid out in table order
from bit 0 of word 0; a field never straddles two words; bits that no field owns are zero. A stream
is a sequence of commands that ends with END.

The controller hands each command to the in-order queue of its engine: LD (DMA in), MX (matrix),
VX (vector) or ST (DMA out). CTRL commands are executed by the controller itself.

## Memories and addresses

- **DRAM** is divided into 16 regions; an address is `region << 40 | byte offset`. Region 0 holds
  the constants (read-only), region 1 the arena, regions from 2 on are the call's arguments, inputs
  before outputs. A configuration maps each region to one of its memories.
- **SPM** is the scratchpad, addressed by bytes. Row r of a tensor operand lives at
  `addr + r * row_stride`, or, in a ring, at
  `addr + ((ring_start + r) % ring_rows) * row_stride`. Pixels are `pixel_stride` bytes apart and
  channels are contiguous, or `channel_stride` bytes apart where the operand has that field.
- **ACC** is the accumulator, addressed by int32 elements: pixel p, channel c lives at
  `acc_addr + p * acc_stride + c`, pixels counted row by row.
- **Parameter records** are 12 bytes a channel: an int32 bias, then an int32 multiplier, an int8
  shift and three zero bytes in the fixed-point modes; a float32 scale and four zero bytes in
  FLOAT_RNE; a float64 scale in HALF_AWAY_F64.

## Semaphores

There are {semaphores} counting semaphores of 8 bits, zero at the start and the end of a program. A
command starts when it is the oldest of its queue, the one before it is done and every semaphore in
its `wait` mask is above zero; it then decrements them. When it is done it increments those in its
`post` mask. The k-th wait on a semaphore takes its k-th post.
"""

_FLOAT_NOTE = """\
The sum of ACC and a bias wraps at 32 bits; every later intermediate value of a fixed-point mode
saturates at int32. In the float modes a NaN becomes the output zero point and infinities saturate;
the other special cases follow IEEE 754.
"""


def generate(root: Path) -> dict[Path, str]:
    """Return {path of docs/isa.md under `root`: its text}."""
    return {root / "docs" / "isa.md": "\n".join(_document())}


def _document() -> Iterator[str]:
    yield _INTRODUCTION.format(
        version=ISA_VERSION, size=COMMAND_BYTES, words=COMMAND_WORDS, semaphores=SEMAPHORES
    )
    yield from _overview()
    yield "## Fields of every command\n"
    yield from _table(SLOTS[INSTRUCTIONS[0].opcode][field.name] for field in HEADER)
    for row in INSTRUCTIONS:
        yield from _instruction(row)
    yield "## Operand rules\n"
    yield "What the fields of one command must satisfy together.\n"
    for rule in RULES:
        text = " ".join((inspect.getdoc(rule) or "").split())
        yield f"- **{rule.__name__}**: {text}"
    yield "\n## Stream rules\n"
    yield "What the verifier proves of a whole stream.\n"
    for name, text in STREAM_RULES.items():
        yield f"- **{name}**: {text}"
    yield ""


def _overview() -> Iterator[str]:
    yield "## Instructions\n"
    yield "| mnemonic | opcode | queue | meaning |"
    yield "|---|---|---|---|"
    for row in INSTRUCTIONS:
        yield f"| {row.mnemonic} | 0x{row.opcode:02x} | {row.queue.name} | {row.summary} |"
    yield f"\n{_FLOAT_NOTE}"


def _instruction(row: Instruction) -> Iterator[str]:
    yield f"## {row.mnemonic}\n"
    yield f"{row.summary}\n"
    unit = "The controller waits" if row.queue == Queue.CTRL else "Cycles"
    yield f"{unit}: {row.timing}.\n"
    if row.fields:
        yield from _table(SLOTS[row.opcode][field.name] for field in row.fields)


def _table(slots: Iterator[Slot]) -> Iterator[str]:
    yield "| word | bits | field | legal values | meaning |"
    yield "|---|---|---|---|---|"
    for slot in slots:
        field, low = slot.field, slot.low_bit
        bits = f"{low + field.bits - 1}:{low}" if field.bits > 1 else str(low)
        meaning = field.meaning.replace("|", "\\|")
        yield f"| {slot.word} | {bits} | `{field.name}` | {_legal(field)} | {meaning} |"
    yield ""


def _legal(field: Field) -> str:
    if field.choices:
        return ", ".join(f"{int(choice)} {choice.name}" for choice in field.choices)
    if field.name == "opcode":
        return "see above"
    return f"{field.minimum} .. {field.maximum}"
