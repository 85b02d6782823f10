"""Profiles: figures that add up, and how they read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runtime_sim import npu
from tests.artifact.models import classifier, write
from tvm_vnpu.artifact import profile_model
from tvm_vnpu.report.profile import Profile
from tvm_vnpu.report.profile_text import short_name
from tvm_vnpu.report.table import html_table, size, text_table


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("profile"), classifier())


@pytest.fixture(scope="module")
def profile(model: Path) -> Profile:
    return profile_model(model)


def test_layers_add_up_to_the_total(profile: Profile) -> None:
    assert sum(layer.cycles for layer in profile.layers) == profile.cycles
    assert sum(layer.share for layer in profile.layers) == pytest.approx(1)
    assert sum(layer.macs for layer in profile.layers) == profile.macs
    assert profile.macs == 8 * 8 * 8 * 9 + 8 * 6


def test_no_layer_beats_its_lower_bound(profile: Profile) -> None:
    for layer in profile.layers:
        assert layer.cycles >= layer.lower_bound_cycles > 0
        assert layer.bound == max(layer.bounds, key=lambda name: layer.bounds[name])
        assert 0 <= layer.utilization <= 1


def test_engine_cycles_add_up(profile: Profile) -> None:
    for engine in profile.engines:
        assert engine.busy + sum(engine.idle.values()) == profile.cycles


def test_rates_follow_from_cycles_and_clock(model: Path) -> None:
    slow = profile_model(model, npu=replace(npu.load("vnpu-256"), clock_mhz=500))
    assert slow.time_ms == pytest.approx(slow.cycles / 500_000)
    assert slow.inferences_per_second == pytest.approx(1000 / slow.time_ms)


def test_bursts_are_never_fewer_bytes(profile: Profile) -> None:
    (memory,) = profile.memories
    assert memory.name == "dram"
    assert memory.read_in_bursts >= memory.read > 0
    assert memory.written_in_bursts >= memory.written >= 6 * 4


def test_peaks_stay_within_capacities(profile: Profile) -> None:
    for name, capacity in profile.capacities.items():
        assert 0 < profile.peaks[name] <= capacity


def test_a_profile_is_json_and_html(profile: Profile) -> None:
    table = json.loads(json.dumps(profile.to_dict()))
    assert table["layers"][0]["nodes"] == ["first/Conv", "first/Relu"]
    assert table["cpu_share"] == 0
    page = profile._repr_html_()
    assert page.count("<table>") == 3 and "NOT CALIBRATED" in page


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((), ""),
        (("conv",), "conv"),
        (("/a/b/Conv", "/a/b/Clip"), "/a/b/Conv + Clip"),
        (("/a/b/Conv", "/a/c/Clip", "/d"), "/a/b/Conv + c/Clip + d"),
        (("x", "x"), "x + x"),
    ],
)
def test_short_names(nodes: tuple[str, ...], text: str) -> None:
    assert short_name(nodes) == text


def test_numbers_align_right() -> None:
    table = text_table(("name", "n", "share"), [["a", 1, "5.0%"], ["bcdef", 12345, "10.0%"]])
    assert table.splitlines() == [
        "name        n  share",
        "-----  ------  -----",
        "a           1   5.0%",
        "bcdef  12,345  10.0%",
    ]


def test_html_is_escaped() -> None:
    assert "<td>&lt;b&gt;</td>" in html_table(("a",), [["<b>"]])


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB")]
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text
