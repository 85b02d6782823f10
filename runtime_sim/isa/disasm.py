"""Print command streams for people: one command a line, only the fields that are not zero."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runtime_sim.isa.codec import Words, decode
from runtime_sim.isa.fields import Field, Instruction
from runtime_sim.isa.layout import BY_OPCODE
from runtime_sim.isa.table import SEMAPHORES
from runtime_sim.views import split_address


def disassemble(stream: bytes | Words) -> str:
    """Return a stream as text, one line a command; raises DecodingError for an illegal one."""
    return "".join(line + "\n" for line in disassemble_lines(stream))


def disassemble_lines(stream: bytes | Words) -> Iterator[str]:
    """Yield one line a command: index, queue, mnemonic, fields; see `disassemble`."""
    commands = decode(stream)
    width = len(str(max(len(commands) - 1, 0)))
    for index, fields in enumerate(commands):
        row = BY_OPCODE[fields["opcode"]]
        text = " ".join(_operands(row, fields))
        yield f"{index:{width}}  {row.queue.name:4} {row.mnemonic:8} {text}".rstrip()


def _operands(row: Instruction, fields: Mapping[str, int]) -> Iterator[str]:
    for field in row.fields:
        value = fields[field.name]
        if value or field.choices:
            yield f"{field.name}={_value(field, value)}"
    for name in ("wait", "post"):
        if fields[name]:
            semaphores = [str(bit) for bit in range(SEMAPHORES) if fields[name] >> bit & 1]
            yield f"{name}={{{','.join(semaphores)}}}"
    yield f"issue={fields['issue']}"


def _value(field: Field, value: int) -> str:
    if field.choices:
        return next(choice.name for choice in field.choices if int(choice) == value)
    if field.name == "dram":
        region, offset = split_address(value)
        return f"r{region}+0x{offset:x}"
    if field.name.endswith("addr") or field.name == "params":
        return f"0x{value:x}"
    return str(value)
