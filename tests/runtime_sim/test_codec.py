"""Encoding and decoding are inverse for every row; illegal commands are named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_sim.isa.codec import (
    DecodingError,
    EncodingError,
    decode,
    decode_columns,
    encode,
    encode_columns,
)
from runtime_sim.isa.fields import COMMAND_WORDS, HEADER, Field, Instruction
from runtime_sim.isa.layout import SLOTS, reserved_masks
from runtime_sim.isa.table import INSTRUCTIONS

MINIMAL_LOAD = {"n0": 1, "n1": 1, "n2": 1, "run": 1}


def values_of(field: Field) -> st.SearchStrategy[int]:
    """Draw legal values of a field, its bounds often."""
    if field.choices:
        return st.sampled_from([int(choice) for choice in field.choices])
    bounds = st.sampled_from([field.minimum, field.maximum])
    return st.one_of(bounds, st.integers(field.minimum, field.maximum))


def fields_of(row: Instruction) -> tuple[Field, ...]:
    """Return all fields but the opcode."""
    return (*HEADER[1:], *row.fields)


@given(st.data())
def test_encode_and_decode_are_inverse(data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(INSTRUCTIONS))
    count = data.draw(st.integers(1, 4))
    values = {
        field.name: data.draw(st.lists(values_of(field), min_size=count, max_size=count))
        for field in fields_of(row)
    }
    words = encode_columns(row.mnemonic, count, values)
    assert words.shape == (count, COMMAND_WORDS)
    expected = [
        {"opcode": row.opcode, **{name: column[i] for name, column in values.items()}}
        for i in range(count)
    ]
    assert decode(words) == expected
    assert decode(words.astype("<u8").tobytes()) == expected


@pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: row.mnemonic)
def test_every_bit_has_one_owner_or_is_reserved(row: Instruction) -> None:
    owned = [0] * COMMAND_WORDS
    for slot in SLOTS[row.opcode].values():
        assert owned[slot.word] & (slot.mask << slot.low_bit) == 0
        owned[slot.word] |= slot.mask << slot.low_bit
    assert [a | b for a, b in zip(owned, reserved_masks(row.opcode))] == [(1 << 64) - 1] * 16


def test_columns_keep_the_place_in_the_stream() -> None:
    load = encode("LOAD", **MINIMAL_LOAD)
    groups = decode_columns(np.concatenate([load, encode("FENCE"), load, encode("END")]))
    assert {g.row.mnemonic: g.index.tolist() for g in groups} == {
        "LOAD": [0, 2],
        "FENCE": [1],
        "END": [3],
    }


@pytest.mark.parametrize(
    ("mnemonic", "values", "message"),
    [
        (
            "LOAD",
            {**MINIMAL_LOAD, "n0": 65536},
            "LOAD.n0 is out of range: seen 65536; limit 1..65535; "
            "choose a smaller tile or another schedule",
        ),
        (
            "LOAD",
            {"n0": 1, "n1": 1, "n2": 1},
            "LOAD.run is out of range: seen 0; limit 1..16777215; "
            "choose a smaller tile or another schedule",
        ),
        ("END", {"n0": 1}, "END has no field 'n0': use one of opcode, issue, wait, post"),
        (
            "MAXPOOL",
            {"type": 3},
            "MAXPOOL.type is out of range: seen 3; limit one of 0 (S8), 1 (U8); "
            "choose a smaller tile or another schedule",
        ),
    ],
)
def test_encoding_errors(mnemonic: str, values: dict[str, int], message: str) -> None:
    with pytest.raises(EncodingError) as error:
        encode(mnemonic, **values)
    assert str(error.value) == message


def corrupt(word: int, bits: int) -> np.ndarray:
    """Return END, then a LOAD with some bits flipped."""
    words = np.concatenate([encode("END"), encode("LOAD", **MINIMAL_LOAD)])
    words[1, word] ^= np.uint64(bits)
    return words


@pytest.mark.parametrize(
    ("word", "bits", "message"),
    [
        (0, 0xFF, "command 1: unknown opcode: seen 0xfe; compile for this ISA version"),
        (15, 1, "command 1: LOAD has reserved bits set: compile for this ISA version"),
        (4, 1 << 32, "command 1: LOAD.n0 is out of range: seen 0; limit 1..65535"),
    ],
)
def test_decoding_errors(word: int, bits: int, message: str) -> None:
    with pytest.raises(DecodingError) as error:
        decode(corrupt(word, bits))
    assert (str(error.value), error.value.rule, error.value.command) == (
        message,
        "fields_legal",
        1,
    )


def test_truncated_stream() -> None:
    with pytest.raises(DecodingError) as error:
        decode(b"\0" * 130)
    assert str(error.value) == (
        "command stream is truncated: seen 130 bytes; limit a multiple of 128; "
        "compile the model again"
    )
