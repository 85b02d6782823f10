"""Encode and decode command streams: little-endian uint64 arrays of shape (commands, 16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.errors import CommandError, VnpuError
from runtime_sim.isa.fields import COMMAND_WORDS, Field, Instruction
from runtime_sim.isa.layout import BY_MNEMONIC, BY_OPCODE, SLOTS, Slot, reserved_masks

Words = NDArray[np.uint64]
_SIGN_BASE = np.int64(1)
FIELDS_LEGAL = "fields_legal"
"""Name of the rule that decoding checks: known opcode, no reserved bit set, fields in range."""


class EncodingError(VnpuError):
    """A field value does not fit its field."""


class DecodingError(CommandError):
    """A command is not a legal vNPU command."""


def encode_columns(mnemonic: str, count: int, values: Mapping[str, Any]) -> Words:
    """Encode `count` commands of one instruction at once.

    `values` maps field names to ints or arrays that broadcast to (count,). Fields not named are
    zero. Returns (count, 16) uint64. Raises EncodingError if a value is outside its field's range
    or a field is unknown or missing (a field whose minimum is above zero).
    """
    row = BY_MNEMONIC[mnemonic]
    slots = SLOTS[row.opcode]
    for name in values:
        if name not in slots or name == "opcode":
            raise EncodingError(
                f"{mnemonic} has no field {name!r}", fix=f"use one of {', '.join(slots)}"
            )
    common = [row.opcode] + [0] * (COMMAND_WORDS - 1)
    columns = []
    for name, slot in slots.items():
        value = values.get(name, 0)
        if name == "opcode":
            continue
        if isinstance(value, (int, np.integer)):
            common[slot.word] |= _bits(mnemonic, slot, int(value)) << slot.low_bit
        else:
            columns.append((slot, value))
    words = np.empty((count, COMMAND_WORDS), np.uint64)
    words[:] = np.array(common, np.uint64)
    for slot, value in columns:
        _put(words, mnemonic, slot, value)
    return words


def encode(mnemonic: str, **values: int) -> Words:
    """Encode one command; returns (1, 16) uint64. Raises as `encode_columns`."""
    return encode_columns(mnemonic, 1, values)


def _bits(mnemonic: str, slot: Slot, value: int) -> int:
    field = slot.field
    legal = not field.choices or value in field.choices
    if not legal or not field.minimum <= value <= field.maximum:
        raise _out_of_range(mnemonic, field, value)
    return value & slot.mask


def _put(words: Words, mnemonic: str, slot: Slot, value: Any) -> None:
    column = np.asarray(value, np.int64)
    field = slot.field
    bad = (column < field.minimum) | (column > field.maximum) | ~_chosen(field, column)
    if np.any(bad):
        raise _out_of_range(mnemonic, field, int(np.broadcast_to(column, bad.shape)[bad].flat[0]))
    bits = column.astype(np.uint64) & np.uint64(slot.mask)
    words[:, slot.word] |= bits << np.uint64(slot.low_bit)


def _out_of_range(mnemonic: str, field: Field, seen: int) -> EncodingError:
    return EncodingError(
        f"{mnemonic}.{field.name} is out of range",
        seen=seen,
        limit=_limit(field),
        fix="choose a smaller tile or another schedule",
    )


def _chosen(field: Field, column: NDArray[np.int64]) -> NDArray[np.bool_]:
    if not field.choices:
        return np.ones(column.shape, bool)
    return np.isin(column, [int(choice) for choice in field.choices])


def _limit(field: Field) -> str:
    if field.choices:
        return "one of " + ", ".join(f"{int(c)} ({c.name})" for c in field.choices)
    return f"{field.minimum}..{field.maximum}"


def field_column(words: Words, slot: Slot) -> NDArray[np.int64]:
    """Return one field of every command of `words` as int64, sign-extended where it is signed."""
    raw = (words[:, slot.word] >> np.uint64(slot.low_bit)) & np.uint64(slot.mask)
    column = raw.astype(np.int64)
    if slot.field.signed:
        sign = _SIGN_BASE << np.int64(slot.field.bits - 1)
        column = (column ^ sign) - sign
    return column


def as_words(stream: bytes | Words) -> Words:
    """Return a stream as (commands, 16) uint64; DecodingError if its length is not whole."""
    if isinstance(stream, np.ndarray):
        return stream.reshape(-1, COMMAND_WORDS)
    if len(stream) % (COMMAND_WORDS * 8):
        raise DecodingError(
            "command stream is truncated",
            rule=FIELDS_LEGAL,
            seen=f"{len(stream)} bytes",
            limit=f"a multiple of {COMMAND_WORDS * 8}",
            fix="compile the model again",
        )
    return np.frombuffer(stream, "<u8").reshape(-1, COMMAND_WORDS)


@dataclass(frozen=True, slots=True)
class Columns:
    """All commands of one instruction in a stream: their indices and one int64 array a field."""

    row: Instruction
    index: NDArray[np.intp]
    fields: Mapping[str, NDArray[np.int64]]


def decode_columns(stream: bytes | Words) -> list[Columns]:
    """Decode a stream instruction by instruction, each field as one array.

    Raises DecodingError (with the command's index) for an unknown opcode, a reserved bit that is
    set or a field outside its range.
    """
    words = as_words(stream)
    opcodes = (words[:, 0] & np.uint64(0xFF)).astype(np.int64)
    groups = []
    for opcode in np.unique(opcodes).tolist():
        index = np.flatnonzero(opcodes == opcode)
        if opcode not in BY_OPCODE:
            raise DecodingError(
                f"command {index[0]}: unknown opcode",
                rule=FIELDS_LEGAL,
                command=int(index[0]),
                seen=f"0x{opcode:02x}",
                fix="compile for this ISA version",
            )
        groups.append(Columns(BY_OPCODE[opcode], index, _decode_rows(words[index], opcode, index)))
    return groups


def decode(stream: bytes | Words) -> list[dict[str, int]]:
    """Decode a stream into one dict per command: field name -> value, with `opcode` first.

    Raises DecodingError as `decode_columns`.
    """
    commands: list[dict[str, int]] = [{} for _ in range(len(as_words(stream)))]
    for group in decode_columns(stream):
        columns = [column.tolist() for column in group.fields.values()]
        for position, values in zip(group.index.tolist(), zip(*columns, strict=True), strict=True):
            commands[position] = dict(zip(group.fields, values, strict=True))
    return commands


def _decode_rows(rows: Words, opcode: int, index: NDArray[np.intp]) -> dict[str, NDArray[np.int64]]:
    _check_reserved(rows, opcode, index)
    fields = {name: field_column(rows, slot) for name, slot in SLOTS[opcode].items()}
    for name, slot in SLOTS[opcode].items():
        _check_range(slot.field, fields[name], opcode, index)
    return fields


def _check_reserved(rows: Words, opcode: int, index: NDArray[np.intp]) -> None:
    masks = np.array(reserved_masks(opcode), np.uint64)
    bad = np.flatnonzero(np.any(rows & masks, axis=1))
    if bad.size:
        raise DecodingError(
            f"command {index[bad[0]]}: {BY_OPCODE[opcode].mnemonic} has reserved bits set",
            rule=FIELDS_LEGAL,
            command=int(index[bad[0]]),
            fix="compile for this ISA version",
        )


def _check_range(
    field: Field, column: NDArray[np.int64], opcode: int, index: NDArray[np.intp]
) -> None:
    if field.name == "opcode":
        return
    bad = (column < field.minimum) | (column > field.maximum) | ~_chosen(field, column)
    where = np.flatnonzero(bad)
    if where.size:
        raise DecodingError(
            f"command {index[where[0]]}: {BY_OPCODE[opcode].mnemonic}.{field.name} is out of range",
            rule=FIELDS_LEGAL,
            command=int(index[where[0]]),
            seen=int(column[where[0]]),
            limit=_limit(field),
        )
