"""Field and instruction descriptions: the vocabulary in which the instruction table is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

COMMAND_WORDS = 16
COMMAND_BYTES = COMMAND_WORDS * 8
WORD_BITS = 64
LUT_ENTRIES = 256
"""Bytes of the table that LUT reads."""


class Queue(IntEnum):
    """The in-order command queues, plus the controller itself."""

    LD = 0
    MX = 1
    VX = 2
    ST = 3
    CTRL = 4


class DType(IntEnum):
    """Element type codes as they stand in a command."""

    S8 = 0
    U8 = 1
    S16 = 2
    S32 = 3
    F32 = 4


class Rounding(IntEnum):
    """Requantisation modes; `runtime_sim.numerics` holds the arithmetic of each."""

    SINGLE_UP = 0
    TFLITE_DOUBLE = 1
    TFLITE_RUY = 2
    HALF_AWAY_F64 = 3
    FLOAT_RNE = 4
    TONEAREST = 5


class EltwiseOp(IntEnum):
    """Operation codes of the ELTWISE instruction."""

    ADD = 0
    SUB = 1
    MUL = 2
    MIN = 3
    MAX = 4


class SoftmaxAlgorithm(IntEnum):
    """How SOFTMAX takes exponentials; `runtime_sim.numerics` holds the arithmetic of each."""

    EXACT = 0
    SHIFTMAX = 1


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a command.

    `low` and `high` bound the legal values (inclusive); `choices` names an enumeration and
    restricts the field to those members. `unit` is for the documentation.
    """

    name: str
    bits: int
    meaning: str
    signed: bool = False
    low: int | None = None
    high: int | None = None
    choices: tuple[IntEnum, ...] = ()

    @property
    def minimum(self) -> int:
        """Return the smallest legal value."""
        if self.low is not None:
            return self.low
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """Return the largest legal value."""
        if self.high is not None:
            return self.high
        if self.choices:
            return max(int(choice) for choice in self.choices)
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1


@dataclass(frozen=True, slots=True)
class Instruction:
    """One row of the instruction table."""

    mnemonic: str
    opcode: int
    queue: Queue
    fields: tuple[Field, ...]
    summary: str
    timing: str

    def field(self, name: str) -> Field:
        """Return the field called `name`; KeyError if the row has none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.mnemonic} has no field {name!r}")


HEADER: tuple[Field, ...] = (
    Field("opcode", 8, "which instruction this command is"),
    Field("issue", 24, "controller cycles since the previous command; ignored by silicon"),
    Field("wait", 32, "semaphores decremented before the command starts, one bit each"),
    Field("post", 32, "semaphores incremented when the command has finished, one bit each"),
)


def spm_operand(prefix: str, what: str) -> tuple[Field, ...]:
    """Return the five fields of a tensor operand in the scratchpad."""
    return (
        Field(f"{prefix}_addr", 28, f"{what}: byte address in SPM"),
        Field(f"{prefix}_row_stride", 24, f"{what}: bytes from a row to the next"),
        Field(f"{prefix}_pixel_stride", 16, f"{what}: bytes from a pixel to the next"),
        Field(f"{prefix}_ring_rows", 14, f"{what}: rows of the ring it lives in; 0 = no ring"),
        Field(f"{prefix}_ring_start", 14, f"{what}: ring row that holds row 0"),
    )


def strided_operand(prefix: str, what: str) -> tuple[Field, ...]:
    """Return the fields of a scratchpad operand whose channels have a stride of their own."""
    return (
        Field(f"{prefix}_addr", 28, f"{what}: byte address in SPM"),
        Field(f"{prefix}_row_stride", 24, f"{what}: bytes from a row to the next"),
        Field(f"{prefix}_pixel_stride", 24, f"{what}: bytes from a pixel to the next"),
        Field(f"{prefix}_channel_stride", 24, f"{what}: bytes from a channel to the next"),
        Field(f"{prefix}_ring_rows", 14, f"{what}: rows of the ring it lives in; 0 = no ring"),
        Field(f"{prefix}_ring_start", 14, f"{what}: ring row that holds row 0"),
    )


def matrix_operand(prefix: str, what: str) -> tuple[Field, ...]:
    """Return the fields of a matrix in the scratchpad whose rows and columns both have strides."""
    return (
        Field(f"{prefix}_addr", 28, f"{what}: byte address in SPM"),
        Field(f"{prefix}_row_stride", 24, f"{what}: bytes from a row to the next"),
        Field(f"{prefix}_col_stride", 24, f"{what}: bytes from a column to the next"),
    )


def extent(name: str, meaning: str, bits: int = 16) -> Field:
    """Return a field that counts something and so is at least 1."""
    return Field(name, bits, meaning, low=1)
