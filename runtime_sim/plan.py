"""From a command stream to an immutable plan.

A plan depends on the stream and the configuration only. Everything that can be worked out before
the call's buffers are known (shapes, strides, tables, legality) is worked out here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from runtime_sim.engines import SEMANTICS
from runtime_sim.errors import VnpuError
from runtime_sim.isa.codec import Words, as_words, decode
from runtime_sim.isa.fields import Instruction, Queue
from runtime_sim.isa.layout import BY_OPCODE
from runtime_sim.isa.rules import RULES
from runtime_sim.merge.program import Program
from runtime_sim.merge.schedule import schedule
from runtime_sim.npu import NpuConfig
from runtime_sim.step import Step
from runtime_sim.templates import Family, families, legal, reach
from runtime_sim.views import (
    ACC,
    CONSTANTS,
    DRAM,
    SPM,
    Fields,
    IllegalCommand,
    View,
    memory_name,
)

IN_BOUNDS = "in_bounds"
"""Every byte a command touches lies inside SPM, ACC or the region it names."""
READ_ONLY = "read_only"
"""No STORE writes the constants or an input."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One command of a plan: its place in the stream, its row, its fields, its meaning."""

    index: int
    row: Instruction
    fields: Fields
    step: Step | None

    @property
    def title(self) -> str:
        """Return "command N (MNEMONIC)" for messages."""
        return f"command {self.index} ({self.row.mnemonic})"


@dataclass(frozen=True)
class Plan:
    """A decoded, checked stream.

    `families` are its commands by template; `reach` is the (first, last + 1) byte touched in each
    region used. The other forms are made when first asked for.
    """

    words: Words
    config: NpuConfig
    families: tuple[Family, ...]
    reach: Mapping[int, tuple[int, int]]

    @cached_property
    def commands(self) -> tuple[Planned, ...]:
        """Return every command, bound to its step; raises IllegalCommand for the first bad one."""
        return tuple(plan_command(f, i, self.config) for i, f in enumerate(decode(self.words)))

    @cached_property
    def dram(self) -> tuple[tuple[Planned, View], ...]:
        """Return every DRAM view with the command it belongs to."""
        return tuple(
            (command, view)
            for command in self.commands
            if command.step is not None
            for operand in (*command.step.reads, command.step.write)
            for view in operand.views
            if view.memory >= DRAM
        )

    @cached_property
    def program(self) -> Program:
        """Return the stream merged into whole-layer operations."""
        return Program(schedule(self.families), self.config)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the steps in stream order, commands that move no data left out."""
        return tuple(command.step for command in self.commands if command.step is not None)


def build(stream: bytes | Words, config: NpuConfig) -> Plan:
    """Decode and check `stream`.

    Raises DecodingError or IllegalCommand, naming the command, for a command outside the
    instruction set, for one that breaks an operand rule or reaches outside SPM or ACC.
    """
    words = np.array(as_words(stream))
    try:
        found = families(words, config)
    except VnpuError:
        found = []
    if len(found) == 0 < len(words) or not all(legal(family, config) for family in found):
        raise _first_fault(words, config)
    return Plan(words, config, tuple(found), reach(found))


def _first_fault(words: Words, config: NpuConfig) -> IllegalCommand:
    """Return the error of the first command that is not legal."""
    try:
        for index, fields in enumerate(decode(words)):
            plan_command(fields, index, config)
    except IllegalCommand as error:
        return error
    raise AssertionError("the checks of templates and of commands disagree")


def plan_command(fields: Fields, index: int, config: NpuConfig) -> Planned:
    """Check one decoded command and bind it to its step; raises IllegalCommand."""
    row = BY_OPCODE[fields["opcode"]]
    for rule in RULES:
        fault = rule(fields, row, config)
        if fault is not None:
            name, seen, limit = fault
            raise IllegalCommand(
                f"command {index} ({row.mnemonic}): {name} breaks rule {rule.__name__}",
                rule=rule.__name__,
                command=index,
                seen=seen,
                limit=limit,
            )
    step = SEMANTICS[row.mnemonic](fields, config)
    command = Planned(index, row, fields, step)
    if step is not None:
        _check_local(command, step, config)
    return command


def _check_local(command: Planned, step: Step, config: NpuConfig) -> None:
    sizes = {SPM: config.spm_bytes, ACC: config.acc_kib * 1024}
    for operand in (*step.reads, step.write):
        for view in operand.views:
            if view.memory in sizes:
                check_extent(command, view, sizes[view.memory])
    if command.row.queue == Queue.ST and step.write.views[0].memory == DRAM + CONSTANTS:
        raise IllegalCommand(
            f"{command.title} writes DRAM region 0",
            rule=READ_ONLY,
            command=command.index,
            limit="region 0 holds constants and is read-only",
        )


def check_extent(command: Planned, view: View, size: int) -> None:
    """Raise IllegalCommand if `view` reaches outside a memory of `size` bytes."""
    low, high = view.extent
    if low < 0 or high > size:
        name = memory_name(view.memory)
        raise IllegalCommand(
            f"{command.title} reaches outside {name}",
            rule=IN_BOUNDS,
            command=command.index,
            seen=f"bytes 0x{low:x} to 0x{high:x}"
            if low >= 0
            else f"bytes -0x{-low:x} to 0x{high:x}",
            limit=f"{name} has {size} bytes",
            fix="compile for this configuration",
        )
