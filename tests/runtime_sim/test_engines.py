"""Every instruction equals the plain-loop machine of `reference_isa` on random legal commands."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from runtime_sim.engines import SEMANTICS
from runtime_sim.isa.fields import Instruction
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.machine import Machine, run
from tests.runtime_sim import programs
from tests.runtime_sim.reference import State
from tests.runtime_sim.reference_isa import EXECUTE

COMMANDS_PER_INSTRUCTION = 80


def test_every_row_has_semantics() -> None:
    assert set(SEMANTICS) == {row.mnemonic for row in INSTRUCTIONS}
    assert set(EXECUTE) == {row.mnemonic for row in programs.WORKING}


@pytest.mark.parametrize("row", programs.WORKING, ids=lambda row: row.mnemonic)
def test_instruction_equals_the_reference(row: Instruction) -> None:
    random = Random(row.opcode)
    machine = Machine(programs.CONFIG)
    for _ in range(COMMANDS_PER_INSTRUCTION):
        f = programs.draw_command(random, row)
        memories = programs.random_memories(random, f)
        state = State(
            bytearray(memories[0].tobytes()),
            memories[1].tolist(),
            {
                n: bytearray(data.tobytes())
                for n, data in enumerate(memories[2:])
                if data is not None
            },
        )
        EXECUTE[row.mnemonic](state, f, programs.CONFIG)
        run(machine.plan(programs.command(f)), memories)
        np.testing.assert_array_equal(memories[0], np.frombuffer(state.spm, np.uint8), str(f))
        np.testing.assert_array_equal(memories[1], state.acc, str(f))
        for region, data in state.regions.items():
            np.testing.assert_array_equal(memories[2 + region], np.frombuffer(data, np.uint8))
