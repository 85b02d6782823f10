"""Executing programs: threads, the plan cache, bounds, traces."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from runtime_sim import npu
from runtime_sim.isa.codec import Words, encode
from runtime_sim.machine import Machine, PlanCache
from runtime_sim.views import IllegalCommand
from tests.runtime_sim.streams import add, conv, load, mask, requant, store, stream

CONFIG = npu.load("vnpu-64")
DOUBLED = stream(
    load(64, post=mask(0)),
    add(a=0, b=0, out=64, c=64, wait=mask(0), post=mask(1)),
    store(64, region=3, spm=64, wait=mask(1)),
)


def regions(values: np.ndarray) -> dict[int, np.ndarray]:
    """Return the regions of DOUBLED: an empty arena, an input and an output."""
    return {
        1: np.zeros(0, np.uint8),
        2: values.astype(np.int8).view(np.uint8),
        3: np.zeros(64, np.uint8),
    }


def test_a_program_runs() -> None:
    memory = regions(np.arange(64) - 32)
    Machine(CONFIG).execute(DOUBLED, memory)
    assert memory[3].view(np.int8).tolist() == [2 * (i - 32) for i in range(64)]


def test_threads_share_a_machine() -> None:
    machine = Machine(CONFIG, cache=PlanCache(1))

    def work(seed: int) -> bool:
        values = np.random.default_rng(seed).integers(-60, 60, 64)
        words = DOUBLED.copy()
        words[0] = load(64, post=mask(0), issue=seed % 3)
        memory = regions(values)
        machine.execute(words, memory)
        return memory[3].view(np.int8).tolist() == (2 * values).tolist()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(200)))


def test_the_cache_is_bounded_and_keyed_by_content() -> None:
    cache = PlanCache(2)
    machine, other = Machine(CONFIG, cache=cache), Machine(replace(CONFIG, lanes=4), cache=cache)
    first = machine.plan(DOUBLED)
    assert machine.plan(DOUBLED.copy()) is first
    assert machine.plan(DOUBLED.tobytes()) is first
    assert Machine(replace(CONFIG, name="renamed"), cache=cache).plan(DOUBLED) is first
    assert other.plan(DOUBLED) is not first
    machine.plan(stream(load()))
    assert len(cache) == 2
    assert machine.plan(DOUBLED) is not first


def test_the_trace_sees_every_command() -> None:
    seen = []
    Machine(CONFIG).execute(
        DOUBLED,
        regions(np.ones(64)),
        trace=lambda command, memories: seen.append((command.title, int(memories[0][64]))),
    )
    assert seen == [
        ("command 0 (LOAD)", 0),
        ("command 1 (ELTWISE)", 2),
        ("command 2 (STORE)", 2),
        ("command 3 (END)", 2),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            stream(load(64), load(64, offset=1)),
            "command 1 (LOAD) reaches outside DRAM region 2: seen bytes 0x1 to 0x41; "
            "limit DRAM region 2 has 64 bytes; compile for this configuration",
        ),
        (
            stream(load(64), store(64, region=5)),
            "command 1 (STORE) uses DRAM region 5, which is not bound: limit regions 1, 2, 3",
        ),
        (
            stream(store(64, region=0)),
            "command 0 (STORE) writes DRAM region 0: "
            "limit region 0 holds constants and is read-only",
        ),
    ],
)
def test_dram_bounds(words: Words, message: str) -> None:
    memory = regions(np.ones(64))
    with pytest.raises(IllegalCommand) as error:
        Machine(CONFIG).execute(words, memory)
    assert str(error.value) == message
    assert not memory[3].any()


def test_misaligned_floats() -> None:
    values = np.array([1.5, -2.5, 1e30, np.nan], np.float32)
    move = {"h": 1, "w": 1, "c": 4, "in_type": 4, "rounding": 4, "out_scale": 1 << 23, "hi": 9}
    words = stream(
        load(16, spm=3, post=mask(0)),
        encode(
            "CONVERT",
            **move,
            in_addr=3,
            in_channel_stride=4,
            out_addr=33,
            out_channel_stride=5,
            out_type=4,
            wait=mask(0),
            post=mask(1),
        ),
        store(4, region=3, spm=33, n2=4, dram_stride2=4, spm_stride2=5, wait=mask(1)),
    )
    memory = {2: values.view(np.uint8), 3: np.zeros(16, np.uint8)}
    Machine(CONFIG).execute(words, memory)
    assert memory[3].tobytes() == values.tobytes()


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("summed", [True, False])
def test_an_illegal_record_is_named(summed: bool, merge: bool) -> None:
    words = stream(
        load(64, region=0, post=mask(0)),
        *([conv(w=0, acc=0, wait=mask(0), post=mask(0))] if summed else []),
        requant(params=0, out=64, wait=mask(0), post=mask(1)),
        store(4, region=3, spm=64, wait=mask(1)),
    )
    memory = {0: np.full(64, 99, np.uint8)} | regions(np.full(64, 0))
    with pytest.raises(IllegalCommand) as error:
        Machine(CONFIG).execute(words, memory, merge=merge)
    assert str(error.value) == (
        f"command {1 + summed} (REQUANT): shift of a parameter record is out of range: "
        "seen 99; limit -31..30"
    )
