"""Each stream rule of the verifier: a program that it catches and a legal neighbour that passes."""

from __future__ import annotations

import pytest

from runtime_sim import npu
from runtime_sim.isa.codec import Words, encode
from runtime_sim.verify import STREAM_RULES, Report, VerifyError, verify
from tests.runtime_sim.streams import add, conv, load, mask, matmul, maxpool, requant, store, stream

CONFIG = npu.load("vnpu-64")
SIZES = {0: 256, 1: 256, 2: 4096, 3: 64}
FENCE = encode("FENCE")
FIRST = (load(1, post=2), store(1, wait=2))
WIDE = {"in_zp": -32000, "w_zp": -32000, "oc": 1, "w": 8}
WIDE_PRODUCT = {"a_zp": -32000, "b_zp": -32000}


def check(words: Words, outputs: tuple[int, ...] = ()) -> Report:
    """Verify a stream with the test's regions."""
    return verify(words, CONFIG, SIZES, outputs)


def many(command: Words, count: int) -> list[Words]:
    """Repeat a command."""
    return [command] * count


CASES: dict[str, list[tuple[Words, Words, str]]] = {
    "fields_legal": [
        (
            stream(load(), FENCE, load() | 1 << 63),
            stream(load(), FENCE, load()),
            "command 2: LOAD has reserved bits set: compile for this ISA version",
        ),
    ],
    "in_bounds": [
        (
            stream(load(64, offset=4033)),
            stream(load(64, offset=4032)),
            "command 0 (LOAD) reaches outside DRAM region 2: seen bytes 0xfc1 to 0x1001; "
            "limit DRAM region 2 has 4096 bytes; compile for this configuration",
        ),
        (
            stream(load(8, n0=2, dram_stride0=-9, spm_stride0=8, offset=8)),
            stream(load(8, n0=2, dram_stride0=-9, spm_stride0=8, offset=9)),
            "command 0 (LOAD) reaches outside DRAM region 2: seen bytes -0x1 to 0x10; "
            "limit DRAM region 2 has 4096 bytes; compile for this configuration",
        ),
        (
            stream(load(64, spm=65536 - 63)),
            stream(load(64, spm=65536 - 64)),
            "command 0 (LOAD) reaches outside SPM: seen bytes 0xffc1 to 0x10001; "
            "limit SPM has 65536 bytes; compile for this configuration",
        ),
        (
            stream(load(64, post=1), conv(acc=4093, wait=1)),
            stream(load(64, post=1), conv(acc=4092, wait=1)),
            "command 1 (CONV) reaches outside ACC: seen bytes 0x3ff4 to 0x4004; "
            "limit ACC has 16384 bytes; compile for this configuration",
        ),
        (
            stream(load(64, region=9)),
            stream(load(64, region=2)),
            "command 0 (LOAD) uses DRAM region 9, which is not bound: limit 0, 1, 2, 3",
        ),
    ],
    "read_only": [
        (
            stream(load(64, post=1), store(64, region=2, wait=1)),
            stream(load(64, post=1), store(64, region=1, wait=1)),
            "command 1 (STORE) writes DRAM region 2, which is read-only",
        ),
        (
            stream(load(64, post=1), store(64, region=0, wait=1)),
            stream(load(64, post=1), store(64, region=1, wait=1)),
            "command 1 (STORE) writes DRAM region 0: "
            "limit region 0 holds constants and is read-only",
        ),
    ],
    "reads_written_bytes": [
        (
            stream(load(63, post=1), store(64, wait=1)),
            stream(load(64, post=1), store(64, wait=1)),
            "command 1 (STORE) reads SPM that was never written: seen byte 0x3f",
        ),
        (
            stream(load(64, post=1), conv(wait=1), conv(accumulate=1, acc=1)),
            stream(load(64, post=1), conv(wait=1), conv(accumulate=1)),
            "command 2 (CONV) reads ACC that was never written: seen element 4",
        ),
        (
            stream(load(64, post=1), store(64, wait=1), FENCE, load(65, region=1)),
            stream(load(64, post=1), store(64, wait=1), FENCE, load(64, region=1)),
            "command 3 (LOAD) reads DRAM region 1 that was never written: seen byte 0x40",
        ),
    ],
    "accesses_ordered": [
        (
            stream(load(128), store(64)),
            stream(load(128), FENCE, store(64)),
            "command 1 (STORE) reads SPM before LD command 1 has certainly written it: "
            "seen byte 0x0; limit LD is known to have done 0",
        ),
        (
            stream(load(64, post=1), store(64, wait=1), load(64, spm=63)),
            stream(load(64, post=1), store(64, wait=1), load(64, spm=64)),
            "command 2 (LOAD) overwrites SPM before ST command 1 has certainly read it: "
            "seen byte 0x3f; limit ST is known to have done 0",
        ),
        (
            stream(load(64, post=5), conv(wait=1), requant(wait=4, out=70)),
            stream(load(64, post=1), conv(wait=1, post=4), requant(wait=4, out=70)),
            "command 2 (REQUANT) reads ACC before MX command 1 has certainly written it: "
            "seen element 0; limit MX is known to have done 0",
        ),
        (
            stream(load(64, post=1), store(64, wait=1), load(64, region=1, spm=64)),
            stream(load(64, post=1), store(64, wait=1, post=2), load(64, region=1, spm=64, wait=2)),
            "command 2 (LOAD) reads DRAM region 1 before ST command 1 has certainly written it: "
            "seen byte 0x0; limit ST is known to have done 0",
        ),
    ],
    "writes_disjoint": [
        (
            stream(load(8, n2=4, dram_stride2=8, spm_stride2=7)),
            stream(load(8, n2=4, dram_stride2=8, spm_stride2=8)),
            "command 0 (LOAD) writes a byte more than once",
        ),
        (
            stream(load(1, n1=3, n2=3, spm_stride1=2, spm_stride2=4)),
            stream(load(1, n1=3, n2=3, spm_stride1=2, spm_stride2=3)),
            "command 0 (LOAD) writes a byte more than once",
        ),
    ],
    "in_place_exact": [
        (
            stream(load(64, post=1), add(a=0, b=8, out=2, wait=1)),
            stream(load(64, post=1), add(a=0, b=8, out=0, wait=1)),
            "command 1 (ELTWISE) overwrites an operand, shifted or reshaped",
        ),
        (
            stream(load(64, post=1), maxpool(wait=1, w=6, kw=3, out=5)),
            stream(load(64, post=1), maxpool(wait=1, w=6, kw=3, out=6)),
            "command 1 (MAXPOOL) overwrites an operand, shifted or reshaped",
        ),
    ],
    "causal": [
        (
            stream(load(64), FENCE, load(64, spm=64, wait=8), store(64, post=8)),
            stream(load(64), FENCE, store(64, post=8), load(64, spm=64, wait=8)),
            "command 2 (LOAD) waits for semaphore 3 before it is posted: "
            "seen wait 1; limit 0 earlier posts",
        ),
    ],
    "one_queue_each": [
        (
            stream(*many(load(64, post=1), 2), FENCE, store(64, wait=1), maxpool(wait=1, out=99)),
            stream(*many(load(64, post=1), 2), FENCE, store(64, wait=1), store(64, wait=1)),
            "command 4 (MAXPOOL) waits for semaphore 0 while queue ST may: "
            "seen VX; limit one waiting queue at a time",
        ),
        (
            stream(load(post=3), store(wait=1), maxpool(wait=2, out=99, post=1), store(wait=1)),
            stream(load(post=3), store(wait=1), FENCE, maxpool(wait=2, out=99, post=1),
                   store(wait=1)),
            "command 2 (MAXPOOL) posts semaphore 0 while posts of LD may be pending: "
            "seen VX; limit one posting queue at a time",
        ),
    ],
    "counter_fits": [
        (
            stream(*FIRST, *many(load(1, spm=1, post=1), 256), *many(store(1, wait=1), 256)),
            stream(*FIRST, *many(load(1, spm=1, post=1), 255), *many(store(1, wait=1), 255)),
            "command 257 (LOAD) may overflow semaphore 0: seen 256; limit 255",
        ),
    ],
    "balanced": [
        (
            stream(load(64, post=mask(4, 6)), store(64, wait=mask(4))),
            stream(load(64, post=mask(4, 6)), store(64, wait=mask(4, 6))),
            "command 2 (END) leaves semaphore 6 above zero: seen 1; limit 0",
        ),
    ],
    "ends_once": [
        (load(), stream(load()), "the stream has no END"),
        (
            stream(load(), encode("END")),
            stream(load(), FENCE),
            "command 2 (END) follows END: seen END at 1",
        ),
    ],
    "accumulator_never_overflows": [
        (
            stream(load(64, post=1), conv(wait=1, ic=3, **WIDE)),
            stream(load(64, post=1), conv(wait=1, ic=2, **WIDE)),
            "command 1 (CONV) may overflow the accumulator: seen 3047473152..3096432387; "
            "limit -2147483648..2147483647",
        ),
        (
            stream(load(64, post=1), matmul(wait=1, k=3, **WIDE_PRODUCT)),
            stream(load(64, post=1), matmul(wait=1, k=2, **WIDE_PRODUCT)),
            "command 1 (MATMUL) may overflow the accumulator: seen 3047473152..3096432387; "
            "limit -2147483648..2147483647",
        ),
        (
            stream(load(64, post=1), conv(wait=1, ic=2, **WIDE),
                   conv(ic=1, accumulate=1, **WIDE)),
            stream(load(64, post=1), conv(wait=1, ic=2, **WIDE),
                   conv(ic=1, accumulate=0, **WIDE), conv(ic=1, accumulate=1, **WIDE)),
            "command 2 (CONV) may overflow the accumulator: seen 3047473152..3096432387; "
            "limit -2147483648..2147483647",
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "bad", "good", "message"),
    [
        pytest.param(rule, *case, id=f"{rule}-{i}")
        for rule, cases in CASES.items()
        for i, case in enumerate(cases)
    ],
)
def test_rule(rule: str, bad: Words, good: Words, message: str) -> None:
    with pytest.raises(VerifyError) as error:
        check(bad)
    assert (error.value.rule, str(error.value)) == (rule, message)
    assert isinstance(check(good), Report)


def test_outputs_are_written_completely() -> None:
    head = load(64, post=1)
    with pytest.raises(VerifyError) as error:
        check(stream(head, store(63, region=3, wait=1)), outputs=(3,))
    assert (error.value.rule, str(error.value)) == (
        "outputs_written",
        "output region 3 is not written completely: seen byte 0x3f never written; limit 64 bytes",
    )
    check(stream(head, store(64, region=3, wait=1)), outputs=(3,))


def test_every_stream_rule_is_tested() -> None:
    assert {*CASES, "outputs_written"} == set(STREAM_RULES)


def test_a_queue_that_cannot_run_ahead_may_post_often() -> None:
    """The controller holds the loads back: at most a queue's depth of stores has not begun."""
    pairs = [c for _ in range(300) for c in (load(1, spm=1, post=1), store(1, wait=1, spm=0))]
    report = check(stream(*FIRST, *pairs))
    assert report.semaphore_peaks == {0: CONFIG.queue_depth + 1, 1: 1}


def test_the_report_counts_commands_and_peaks() -> None:
    words = stream(
        load(64, spm=100, post=1), conv(x=100, w=132, acc=5, wait=1, post=2), FENCE,
        requant(acc=5, params=100, out=300, wait=2, post=4), store(4, spm=300, offset=9, wait=4),
    )  # fmt: skip
    report = check(words)
    assert dict(report.commands) == {"LD": 1, "MX": 1, "VX": 1, "ST": 1}
    assert dict(report.peaks) == {"SPM": 304, "ACC": 36, "DRAM region 1": 13}
