"""Merged execution leaves every region as command by command execution does, on any program."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from runtime_sim.errors import VnpuError
from runtime_sim.isa.codec import Words, decode, encode
from runtime_sim.isa.fields import Instruction, Queue, Rounding
from runtime_sim.isa.layout import SLOTS
from runtime_sim.machine import Machine, PlanCache
from runtime_sim.merge import blas, bound, program
from runtime_sim.merge.layers import Layer
from runtime_sim.views import SPM, View
from tests.runtime_sim import programs, tiled
from tests.runtime_sim.streams import add, load, requant, store

MACHINE = Machine(tiled.CONFIG, cache=PlanCache(1))
LAYERS = 300
MUTANTS = 800
PROGRAMS = 400


def run_both(words: Words, regions: dict[int, np.ndarray]) -> None:
    """Execute a program in both modes and compare all regions."""
    results = []
    for merge in (False, True):
        copies = {number: data.copy() for number, data in regions.items()}
        MACHINE.execute(words, copies, merge=merge, threads=2)
        results.append(copies)
    for number, expected in results[0].items():
        np.testing.assert_array_equal(results[1][number], expected, f"region {number}")


def draw(random: Random) -> tuple[tiled.Shape, tiled.Drawn]:
    shape = tiled.draw_shape(random)
    while min(shape.out) < 1:
        shape = tiled.draw_shape(random)
    places = random.randrange(8), 2048 + random.randrange(8)
    return shape, tiled.draw_layer(random, shape, *places)


def test_a_tiled_layer_becomes_one_operation() -> None:
    random, merged = Random(1), 0
    for _ in range(LAYERS):
        shape, drawn = draw(random)
        words = np.concatenate([drawn.words, encode("END")])
        run_both(words, {0: drawn.constants, 1: drawn.arena})
        actions = MACHINE.plan(words).program.actions
        assert all(isinstance(action, Layer) for action in actions), shape
        merged += len(actions) == 1
    assert merged > 0.9 * LAYERS


def test_one_changed_field_is_never_merged_away() -> None:
    random, different = Random(2), 0
    for _ in range(MUTANTS):
        _, drawn = draw(random)
        words = np.concatenate([drawn.words, encode("END")])
        command = random.randrange(len(words) - 1)
        slot = random.choice(list(SLOTS[int(words[command, 0]) & 0xFF].values()))
        flip = np.uint64(1 << slot.low_bit + random.randrange(min(slot.field.bits, 7)))
        words[command, slot.word] ^= flip
        try:
            run_both(words, {0: drawn.constants, 1: drawn.arena})
        except VnpuError:
            continue
        different += 1
    assert different > MUTANTS / 3


def transfer(random: Random, mnemonic: str, view: View) -> Words:
    """Return a transfer of exactly one view of SPM, to or from a random place in DRAM."""
    item, last = view.dtype.itemsize, random.choice((0, 0, 3))
    if len(view.shape) == 1:
        shape, near, run = (1, 1, 1), (0, 0, 0), view.shape[0] * item
    else:
        absent = (3 - len(view.shape)) * (1,)
        shape, near, run = absent + view.shape, absent + view.strides, item
    inner = run + last
    far = (shape[1] * shape[2] * inner, shape[2] * inner, inner)
    room = programs.REGION_BYTES - shape[0] * far[0]
    region = random.choice((0, 1, 2) if mnemonic == "LOAD" else (1, 3))
    counts = {f"n{i}": n for i, n in enumerate(shape)}
    strides = {f"dram_stride{i}": s for i, s in enumerate(far)}
    strides |= {f"spm_stride{i}": s for i, s in enumerate(near)}
    offset = random.randrange(max(room, 1))
    return encode(mnemonic, dram=region << 40 | offset, spm_addr=view.offset, run=run,
                  **counts, **strides)  # fmt: skip


def requantisation(f: dict[str, int]) -> Words:
    """Return a REQUANT of a matrix command's sums."""
    rows, columns = f.get("out_h", 1), f.get("out_w", f.get("m", 1))
    channels = f.get("n", f.get("oc", f.get("c", 1) * f.get("mult", 1)))
    places = {"acc": f["acc_addr"], "acc_stride": f["acc_stride"], "params": 40000, "out": 50000}
    strides = {"out_row_stride": columns * channels, "out_pixel_stride": channels}
    return requant(h=rows, w=columns, c=channels, lo=-100, hi=100, **places, **strides)


COMMANDS = ("MATMUL", "REQUANT", "LUT", "SOFTMAX", "FILL")
"""What stays a command between transfers: REQUANT without a sum, and what the planner has not."""


@pytest.mark.parametrize("row", programs.WORKING[2:], ids=lambda row: row.mnemonic)
def test_every_instruction_between_transfers(row: Instruction) -> None:
    random, layers = Random(row.opcode), 0
    for _ in range(60):
        f = programs.draw_command(random, row) | ({"accumulate": 0} if "accumulate" in SLOTS[
            row.opcode] else {})  # fmt: skip
        step = programs.planned(f).step
        assert step is not None
        words = [transfer(random, "LOAD", v) for o in step.reads for v in o.views
                 if v.memory == SPM and 0 not in v.shape]  # fmt: skip
        words.append(programs.command(f))
        results = step.write.views
        if row.queue == Queue.MX:
            read = requantisation(f)
            last = programs.planned(decode(read)[0]).step
            assert last is not None
            words += [transfer(random, "LOAD", last.reads[1].views[0]), read]
            results = last.write.views
        words += [transfer(random, "STORE", view) for view in results]
        whole = np.concatenate([*words, encode("END")])
        low = bytes(value % 31 for value in random.randbytes(programs.REGION_BYTES))
        run_both(whole, {n: np.frombuffer(low, np.uint8).copy() for n in range(4)})
        actions = MACHINE.plan(whole).program.actions
        layers += all(isinstance(action, Layer) for action in actions)
    assert (layers > 20) == (row.mnemonic not in COMMANDS)


def draw_program(random: Random, length: int) -> Words:
    """Return random commands, many with a load into an operand or a store of their result."""
    words = []
    for _ in range(length):
        f = programs.draw_command(random, random.choice(programs.WORKING))
        f["accumulate"] = f.get("accumulate", 0)
        if "accumulate" not in SLOTS[f["opcode"]]:
            del f["accumulate"]
        words.append(programs.command(f))
        if random.random() < 0.6:
            row = random.choice(programs.rows_named("STORE", "STORE", "LOAD"))
            words.append(programs.command(programs.draw_command(random, row)))
    return np.concatenate([*words, encode("END")])


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int) -> None:
    random, equal = Random(seed), 0
    for _ in range(PROGRAMS // 4):
        words = draw_program(random, random.randrange(2, 14))
        low = bytes(value % 31 for value in random.randbytes(programs.REGION_BYTES))
        regions = {n: np.frombuffer(low, np.uint8).copy() for n in range(4)}
        try:
            run_both(words, regions)
        except VnpuError:  # A computed value was read as a record.
            continue
        equal += 1
    assert equal > PROGRAMS / 8


def test_layers_in_a_row_and_in_place() -> None:
    random = Random(3)
    for _ in range(100):
        shape, first = draw(random)
        words, constants = [first.words], [first.constants]
        for _ in range(2):
            ends = random.choice((0, 2048)), random.choice((0, 1024, 2048))
            size = sum(blob.size for blob in constants)
            again = tiled.draw_layer(random, shape, *ends, size)
            words.append(again.words)
            constants.append(again.constants)
        whole = np.concatenate([*words, encode("END")])
        run_both(whole, {0: np.concatenate(constants), 1: first.arena})


def test_results_do_not_depend_on_threads() -> None:
    shape = tiled.Shape(8, 8, 12, 12, 3, 1, 1, Rounding.SINGLE_UP, (3, 0))
    drawn = tiled.draw_layer(Random(4), shape, 0, 2048)
    words = np.concatenate([drawn.words, encode("END")])
    bound._BLOCK_ELEMENTS, before = 1, bound._BLOCK_ELEMENTS
    program._SERIAL_ELEMENTS, serial = 1, program._SERIAL_ELEMENTS
    try:
        results = set()
        for threads in (1, 2, 5):
            regions = {0: drawn.constants, 1: drawn.arena.copy()}
            MACHINE.execute(words, regions, threads=threads)
            results.add(regions[1].tobytes())
    finally:
        bound._BLOCK_ELEMENTS, program._SERIAL_ELEMENTS = before, serial
    assert len(results) == 1


def test_threads_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNPU_THREADS", "3")
    assert program.default_threads() == 3
    monkeypatch.setenv("VNPU_THREADS", "none")
    assert program.default_threads() >= 1


def test_blas_gets_its_threads_back() -> None:
    controls = blas._controls()
    if controls is None:
        pytest.skip("this NumPy has no OpenBLAS that can be set")
    read, write = controls
    before = read()
    try:
        write(2)
        with blas.one_thread():
            with blas.one_thread():
                assert read() == 1
            assert read() == 1
        assert read() == 2
    finally:
        write(before)


def test_new_constants_are_bound_anew() -> None:
    shape = tiled.Shape(4, 4, 3, 5, 1, 1, 0, Rounding.SINGLE_UP, (0, 0))
    first, second = (tiled.draw_layer(Random(seed), shape, 0, 2048) for seed in (7, 7))
    words = np.concatenate([first.words, encode("END")])
    run_both(words, {0: first.constants, 1: first.arena})
    changed = second.constants.copy()
    changed[:4] ^= 1
    run_both(words, {0: changed, 1: first.arena})


def test_regions_that_share_memory_run_command_by_command() -> None:
    words = np.concatenate([
        load(16, region=2, spm=0), store(16, region=3, spm=0),
        load(16, region=2, spm=32), add(a=32, b=32, out=64, c=16), store(16, region=3, spm=64),
        encode("END"),
    ])  # fmt: skip
    results = []
    for merge in (True, False):
        memory = np.arange(24, dtype=np.uint8)
        MACHINE.execute(words, {2: memory[:16], 3: memory[8:]}, merge=merge)
        results.append(memory.tolist())
    assert results[0] == results[1]
