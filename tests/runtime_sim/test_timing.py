"""The timeline: hand-computed programs, and its invariants on random ones."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_sim import npu
from runtime_sim.cost import COSTS
from runtime_sim.isa.codec import Words, decode_columns, encode
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.npu import Memory, NpuConfig
from runtime_sim.timing import TimingError, measure, simulate
from runtime_sim.total_cycles import total_cycles
from runtime_sim.traffic import bursts
from tests.runtime_sim import programs
from tests.runtime_sim.streams import address, conv, load, mask, requant, store, stream

CONFIG = npu.load("vnpu-256")


def cycles(words: Words, config: NpuConfig = CONFIG) -> int:
    """Return the cost of a single command."""
    (group,) = decode_columns(words)
    return int(COSTS[group.row.mnemonic](group.fields, config)[0])


def test_every_row_has_a_cost() -> None:
    assert set(COSTS) == {row.mnemonic for row in INSTRUCTIONS}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 16 + 30),
        ({"out_h": 5, "out_w": 5}, 25 + 30),
        ({"ic": 17}, 2 * 16 + 30),
        ({"oc": 33}, 3 * 16 + 30),
        ({"kh": 3, "kw": 3, "ic": 3}, 9 * 16 + 30),
        ({"kh": 3, "kw": 3, "ic": 3, "packed": 1}, 2 * 16 + 30),
        ({"out_h": 5, "out_w": 5, "stationary": 1}, 2 * 16 + 30),
        ({"out_h": 5, "out_w": 5, "oc": 24, "stationary": 1}, 2 * 24 + 30),
        ({"kh": 3, "kw": 3, "ic": 17, "oc": 24, "stationary": 1}, 18 * 24 + 30),
        ({"kh": 3, "kw": 3, "ic": 3, "packed": 1, "stationary": 1}, 2 * 16 + 30),
    ],
)
def test_convolution_cost(fields: dict[str, int], expected: int) -> None:
    assert cycles(conv(**{"ic": 4, "oc": 4, **fields})) == expected


def test_depthwise_runs_at_its_rate() -> None:
    f = dict.fromkeys(("in_h", "in_w", "sh", "sw", "dh", "dw", "mult"), 1)
    f |= {"out_h": 7, "out_w": 7, "kh": 3, "kw": 3, "c": 33}
    assert cycles(encode("DWCONV", **f)) == 3 * -(-49 * 9 // 8) + 30


@pytest.mark.parametrize(
    ("m", "k", "n", "expected"),
    [
        (1, 1, 1, 16 + 30),
        (16, 16, 16, 16 + 30),
        (17, 16, 16, 17 + 30),
        (1, 17, 16, 2 * 16 + 30),
        (40, 33, 49, 4 * 3 * 40 + 30),
    ],
)
def test_product_cost(m: int, k: int, n: int, expected: int) -> None:
    assert cycles(encode("MATMUL", m=m, k=k, n=n)) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"run": 64}, 2),
        ({"run": 64, "dram": address(2, 16)}, 3),
        ({"run": 1}, 1),
        ({"run": 32, "n2": 4, "dram_stride2": 32, "n1": 2, "dram_stride1": 128}, 8),
        ({"run": 8, "n2": 4, "dram_stride2": 8}, 1),
        ({"run": 8, "n2": 4, "dram_stride2": 12}, 4),
        ({"run": 8, "n0": 4, "dram_stride0": 64}, 4),
        ({"run": 8, "n0": 2, "dram_stride0": 28, "n1": 2, "dram_stride1": 8}, 3),
        ({"run": 16, "n0": 3, "dram_stride0": -24, "dram": address(2, 64)}, 3),
    ],
)
def test_bursts(fields: dict[str, int], expected: int) -> None:
    (group,) = decode_columns(load(**fields))
    assert bursts(group.fields, CONFIG).tolist() == [expected]


@given(st.data())
def test_bursts_equal_counting_them(data: st.DataObject) -> None:
    random = Random(data.draw(st.integers(0, 1 << 32)))
    f = programs.draw_command(random, programs.rows_named("LOAD")[0])
    size = random.choice((1, 3, 16, 32))
    config = replace(CONFIG, memories=(Memory(burst=size),))
    start = f["dram"] & ((1 << 40) - 1)
    runs = [
        start + i * f["dram_stride0"] + j * f["dram_stride1"] + k * f["dram_stride2"]
        for i in range(f["n0"])
        for j in range(f["n1"])
        for k in range(f["n2"])
    ]
    merged: list[list[int]] = []
    for at in runs:
        if merged and merged[-1][1] == at:
            merged[-1][1] += f["run"]
        else:
            merged.append([at, at + f["run"]])
    expected = sum((end - 1) // size - begin // size + 1 for begin, end in merged)
    (group,) = decode_columns(programs.command(f))
    got = int(bursts(group.fields, config)[0])
    # Runs may also meet across dimensions that do not merge as a whole; those still count twice.
    assert got >= expected
    assert got <= sum((at + f["run"] - 1) // size - at // size + 1 for at in runs)


def test_a_pipeline_by_hand() -> None:
    """64 bytes take 8 cycles after 100 of latency; CONV of one pixel takes 46."""
    words = stream(
        load(64, issue=10, post=mask(0)),
        load(64, issue=10, post=mask(2), spm=64),
        conv(issue=10, wait=mask(0), post=mask(1)),
        requant(issue=10, wait=mask(1, 2), c=32),
    )
    timeline = simulate(words, CONFIG)
    assert timeline.issued.tolist() == [10, 20, 30, 40, 219]
    assert timeline.start.tolist() == [110, 210, 118, 218, 219]
    assert timeline.end[:4].tolist() == [118, 218, 164, 219]
    assert timeline.total == 219
    assert dict(timeline.engines["LD"].idle) == {
        "controller": 10,
        "latency": 192,
        "drain": 1,
    }
    assert dict(timeline.engines["MX"].idle) == {"controller": 30, "semaphore:LD": 88, "drain": 55}
    assert dict(timeline.engines["VX"].idle) == {"controller": 40, "semaphore:LD": 178}
    assert timeline.memories[0].read == timeline.memories[0].read_in_bursts == 128


def test_transfers_share_the_memory_in_issue_order() -> None:
    """A store that waits for a convolution holds back the load issued after it."""
    words = stream(
        load(64, post=mask(0)),
        conv(wait=mask(0), post=mask(1)),
        store(64, region=3, wait=mask(1)),
        load(64, spm=64),
    )
    timeline = simulate(words, CONFIG)
    assert timeline.start[:4].tolist() == [100, 108, 254, 262]
    assert dict(timeline.engines["LD"].idle) == {"latency": 192, "memory order": 54, "memory": 8}
    two = replace(CONFIG, memories=(Memory(), Memory("other")), region_memory=(0, 0, 0, 1) * 4)
    assert simulate(words, two).start[:4].tolist() == [100, 108, 254, 200]


def test_a_full_queue_blocks_the_controller() -> None:
    words = stream(*(load(3200, issue=1) for _ in range(4)), requant(issue=1))
    shallow = simulate(words, replace(CONFIG, queue_depth=1))
    assert shallow.issued.tolist() == [1, 2, 101, 501, 502, 1701]
    assert dict(shallow.engines["CTRL"].idle) == {"queue full:LD": 497, "drain": 1199}
    assert dict(shallow.engines["VX"].idle) == {"controller": 5, "queue full": 497, "drain": 1198}
    assert simulate(words, CONFIG).issued.tolist() == [1, 2, 3, 4, 5, 1701]


def test_fence_and_counter() -> None:
    words = stream(load(64), encode("FENCE", issue=4), encode("COUNTER", id=7, issue=4), requant())
    timeline = simulate(words, CONFIG)
    assert [(c.command, c.id, c.cycle) for c in timeline.counters] == [(2, 7, 112)]
    assert dict(timeline.engines["VX"].idle) == {"controller": 8, "fence": 104}
    assert dict(timeline.engines["CTRL"].idle) == {"fence": 104, "drain": 1}


def test_a_wait_without_a_post_is_an_error() -> None:
    with pytest.raises(TimingError) as error:
        simulate(stream(load(), requant(wait=mask(5))), CONFIG)
    assert str(error.value) == (
        "command 1 waits for semaphore 5, which no earlier command posts: "
        "run the verifier on this stream"
    )


def test_an_empty_stream_takes_no_time() -> None:
    assert simulate(stream(), CONFIG).total == 0


PROGRAMS = programs.drawn_programs(40)
CONFIGS = st.builds(
    lambda rate, latency, burst, depth: replace(
        programs.CONFIG, memories=(Memory("dram", rate, latency, burst),), queue_depth=depth
    ),
    st.sampled_from((0.7, 2, 8)),
    st.sampled_from((0, 10, 100)),
    st.sampled_from((1, 24, 32)),
    st.sampled_from((1, 2, 8)),
)


@settings(max_examples=60)
@given(PROGRAMS, CONFIGS)
def test_every_cycle_is_charged(words: Words, config: NpuConfig) -> None:
    timeline = simulate(words, config)
    for name, engine in timeline.engines.items():
        assert engine.busy <= timeline.total
        assert all(cycles > 0 for cycles in engine.idle.values()), (name, engine)
        assert engine.busy + sum(engine.idle.values()) == timeline.total, (name, engine)
    assert np.all(timeline.start >= timeline.issued)
    for queue in range(4):
        mine = timeline.queue == queue
        assert np.all(timeline.start[mine][1:] >= timeline.end[mine][:-1])


@settings(max_examples=60)
@given(PROGRAMS, CONFIGS, st.floats(1.01, 8))
def test_more_bandwidth_never_costs_cycles(words: Words, config: NpuConfig, factor: float) -> None:
    (memory,) = config.memories
    faster = replace(memory, bytes_per_cycle=memory.bytes_per_cycle * factor)
    slow = simulate(words, config)
    fast = simulate(words, replace(config, memories=(faster,)))
    assert np.all(fast.end <= slow.end) and fast.total <= slow.total


@settings(max_examples=30)
@given(PROGRAMS, CONFIGS)
def test_less_latency_and_deeper_queues_never_cost_cycles(words: Words, config: NpuConfig) -> None:
    (memory,) = config.memories
    total = simulate(words, config).total
    quick = replace(config, memories=(replace(memory, latency=memory.latency // 2),))
    deep = replace(config, queue_depth=config.queue_depth + 1)
    assert simulate(words, quick).total <= total
    assert simulate(words, deep).total <= total


@given(PROGRAMS, CONFIGS)
def test_the_total_alone_is_that_of_the_timeline(words: Words, config: NpuConfig) -> None:
    work = measure(words, config)
    assert total_cycles(work, config) == simulate(words, config).total


def test_the_total_alone_needs_posts_too() -> None:
    words = stream(load(), requant(wait=mask(5)))
    with pytest.raises(TimingError, match="waits for what no earlier command posts"):
        total_cycles(measure(words, CONFIG), CONFIG)
    assert total_cycles(measure(stream(), CONFIG), CONFIG) == 0
