"""What a schedule costs: the cycles of the one-operator program that would really run.

The kernel is lowered and laid out as for a command stream, but its commands are not encoded: only
the fields that cost or order anything are evaluated.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from codegen.assemble import Block, Issued, lay_out_program
from codegen.controller import lower_program
from codegen.expr import Expr
from codegen.graph import NpuGraph
from codegen.kernel import Call, Kernel, command
from codegen.memory import place
from codegen.ops.base import Operator, best_schedule
from codegen.program import EntryBuilder
from codegen.schedule import Schedule
from codegen.tiles import ALIGNMENT
from codegen.totals import totals
from runtime_sim.isa.codec import Columns
from runtime_sim.isa.layout import BY_MNEMONIC
from runtime_sim.npu import NpuConfig
from runtime_sim.timing import Work, work_of

Column = NDArray[np.int64]


def cycles(operator: Operator, schedule: Schedule, npu: NpuConfig) -> int:
    """Return the cycles of the program that runs `operator` alone with `schedule`.

    Equals the timeline of the assembled `build_program`. Raises ScheduleError for a schedule that
    is not legal.
    """
    return cycles_of(operator, (schedule,), npu)[0]


def cycles_of(operator: Operator, schedules: Sequence[Schedule], npu: NpuConfig) -> list[int]:
    """Return `cycles` of each schedule; the costs of all their commands are worked out together."""
    with _uncollected():
        programs = [_blocks(operator, schedule, npu) for schedule in schedules]
        ends = np.cumsum([sum(block.count for block in blocks) for blocks in programs]).tolist()
        blocks = [block for program in programs for block in program]
        whole = work_of(_columns(blocks), ends[-1] if ends else 0, npu)
        return totals(whole, ends, npu)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of cyclic garbage from running.

    Lowering makes thousands of objects and no cycle of them; looking for one took a fifth of it.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def work(operator: Operator, schedule: Schedule, npu: NpuConfig) -> Work:
    """Return what the timeline needs of the one-operator program's commands."""
    blocks = _blocks(operator, schedule, npu)
    return work_of(_columns(blocks), sum(block.count for block in blocks), npu)


def _blocks(operator: Operator, schedule: Schedule, npu: NpuConfig) -> list[Block]:
    """Return the commands of the one-operator program."""
    kernel = operator.lower(schedule, npu)
    call = Call(kernel, _arguments(operator, schedule, npu))
    entry = Kernel("measured", (), (call, command("END")))
    return lay_out_program(lower_program(entry, npu))[0]


def lone_graph(operator: Operator) -> NpuGraph:
    """Return the graph of one operator: what its cycles are measured on."""
    inputs = {id(tensor): tensor for tensor in operator.inputs if tensor.data is None}
    return NpuGraph("measured", (operator,), tuple(inputs.values()), operator.outputs, "")


def _arguments(operator: Operator, schedule: Schedule, npu: NpuConfig) -> Mapping[str, Expr]:
    """Return the kernel's arguments; only their bursts' phases matter here.

    Schedules reorder constants, which moves none by less than the alignment.
    """
    if all(ALIGNMENT % memory.burst == 0 for memory in npu.memories):
        schedule = best_schedule(operator, npu)
    return _arguments_for(operator, schedule, npu)


@lru_cache(maxsize=256)
def _arguments_for(operator: Operator, schedule: Schedule, npu: NpuConfig) -> Mapping[str, Expr]:
    builder = EntryBuilder(npu, place(lone_graph(operator)))
    return MappingProxyType(builder.arguments(operator, schedule))


def _columns(blocks: Sequence[Block]) -> Iterator[Columns]:
    """Yield the commands instruction by instruction, in stream order of the whole program."""
    sites: dict[str, list[tuple[int, Issued]]] = {}
    first = 0
    for block in blocks:
        for issued in block.issued:
            sites.setdefault(issued.mnemonic, []).append((first, issued))
        first += block.count
    for mnemonic, found in sites.items():
        index = np.concatenate([first + issued.rows for first, issued in found])
        fields = _Fields([issued for _, issued in found])
        yield Columns(BY_MNEMONIC[mnemonic], index, fields)


class _Fields(Mapping[str, Column]):
    """The fields of one instruction's commands, each evaluated when it is asked for."""

    def __init__(self, sites: Sequence[Issued]) -> None:
        self._sites = sites
        self._count = sum(len(site.gaps) for site in sites)
        self._known: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        if name not in self._known:
            self._known[name] = self._column(name)
        return self._known[name]

    def _column(self, name: str) -> Column:
        if name == "opcode":
            return np.full(self._count, BY_MNEMONIC[self._sites[0].mnemonic].opcode, np.int64)
        if name == "issue":
            return np.concatenate([site.gaps for site in self._sites])
        column = np.empty(self._count, np.int64)
        at = 0
        for site in self._sites:
            end = at + len(site.gaps)
            column[at:end] = site.value(name)
            at = end
        return column

    def __iter__(self) -> Iterator[str]:
        yield from ("opcode", "issue", *self._sites[0].fields)

    def __len__(self) -> int:
        return 2 + len(self._sites[0].fields)
