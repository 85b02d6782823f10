"""The totals of many streams at once are those of their timelines, in C and in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen import totals as module
from codegen.compile_c import STRICT
from codegen.totals import totals
from runtime_sim.isa.codec import Words
from runtime_sim.npu import Memory, NpuConfig
from runtime_sim.timing import TimingError, Work, measure, simulate
from tests.runtime_sim import programs
from tests.runtime_sim.streams import load, mask, requant, stream

TWO_MEMORIES = (0, 0, 0, 1) * 4
PROGRAMS = programs.drawn_programs(40)
CONFIGS = st.builds(
    lambda rate, latency, depth: replace(
        programs.CONFIG, memories=(Memory("a", rate, latency), Memory("b", 3, 7)),
        region_memory=TWO_MEMORIES, queue_depth=depth,
    ),
    st.sampled_from((0.7, 8)), st.sampled_from((0, 100)), st.sampled_from((1, 2, 8)),
)  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_library() -> Iterator[None]:
    """Compile anew in each test, and leave nothing of it to others."""
    module._library.cache_clear()
    yield
    module._library.cache_clear()


def together(streams: list[Words], config: NpuConfig) -> tuple[Work, list[int]]:
    """Return the work of streams one after the other, and where each ends."""
    works = [measure(words, config) for words in streams]
    columns = (np.concatenate([getattr(w, f.name) for w in works]) for f in fields(Work))
    return Work(*columns), np.cumsum([len(words) for words in streams]).tolist()


@given(st.lists(PROGRAMS, min_size=1, max_size=3), CONFIGS)
def test_in_c_and_in_python(streams: list[Words], config: NpuConfig) -> None:
    expected = [simulate(words, config).total for words in streams]
    work, ends = together(streams, config)
    assert totals(work, ends, config) == expected
    with patch.object(module, "_library", lambda: None):
        assert totals(work, ends, config) == expected


@pytest.mark.parametrize("cc", ["", "no-such-cc"])
def test_without_a_compiler_it_is_python(monkeypatch: pytest.MonkeyPatch, cc: str) -> None:
    monkeypatch.setenv("CC", cc)
    assert (module._library() is None) == bool(cc)
    work, ends = together([stream(load(64))], programs.CONFIG)
    assert totals(work, ends, programs.CONFIG) == [
        simulate(stream(load(64)), programs.CONFIG).total
    ]


@pytest.mark.parametrize("cc", ["", "no-such-cc"])
def test_a_wait_without_a_post_is_an_error(monkeypatch: pytest.MonkeyPatch, cc: str) -> None:
    """Posts of an earlier stream are not for a later one."""
    monkeypatch.setenv("CC", cc)
    posts, waits = stream(load(64, post=mask(5))), stream(requant(wait=mask(5)))
    work, ends = together([posts, waits], programs.CONFIG)
    with pytest.raises(TimingError) as error:
        totals(work, ends, programs.CONFIG)
    assert str(error.value) == "a command waits for what no earlier command posts"


def test_there_may_be_nothing() -> None:
    work, ends = together([stream(), stream()], programs.CONFIG)
    assert totals(work, ends, programs.CONFIG) == [0, 0]
    assert totals(work, [], programs.CONFIG) == []


def test_the_c_has_no_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", " ".join(("cc", *STRICT, "-Wconversion")))
    assert module._library() is not None
