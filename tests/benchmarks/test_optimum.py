"""The optimum benchmark: rows survive on disk, and its check can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import optimum
from benchmarks.optimum import Store, check, count_points, summary
from codegen.schedule import Schedule
from tests.codegen.drawn import NPUS
from tests.codegen.test_measure import points

ROW = {
    "npu": "vnpu-64", "layer": "C2 a", "kind": "conv2d", "points": 9, "measured": 3,
    "sampled": 1, "violations": 0, "proven": True, "default_over_optimum": 1.21, "seconds": 2.0,
    "optimum_over_bound": 1.0,
}  # fmt: skip


def test_rows_survive_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "made" / "rows.jsonl"
    Store(path).add("first", ROW)
    path.write_text(path.read_text(encoding="utf-8") + '{"key": "second", "ro', encoding="utf-8")
    again = Store(path)
    assert again.rows == {"first": ROW}


def test_the_check_counts_violations(monkeypatch: pytest.MonkeyPatch) -> None:
    npu = NPUS["vnpu-64"]
    operator, _, _ = points("conv2d", npu, 2, 0)
    space = operator.space(npu)
    sampled, below_bound, below_optimum = check(space, 40, 0)
    assert 1 < sampled <= 40 and (below_bound, below_optimum) == (0, 0)
    assert check(space, 40, 1 << 60) == (sampled, 0, sampled)
    exact = optimum.lower_bounds
    monkeypatch.setattr(optimum, "lower_bounds", lambda *args: exact(*args) * 1000)
    assert check(space, 40, 0) == (sampled, sampled, 0)


def test_small_spaces_are_counted_and_large_ones_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    npu = NPUS["vnpu-64"]
    operator, _, _ = points("eltwise", npu, 2, 0)
    space = operator.space(npu)
    exact = len(list(space.points()))
    assert count_points(space) == (exact, False)
    monkeypatch.setattr(optimum, "SMALL", 0)
    points_, estimated = count_points(space)
    assert estimated and abs(points_ - exact) < 0.1 * exact + 5


def test_the_summary_takes_one_npu() -> None:
    better = {"default_over_optimum": 1.0, "layer": "C3 b", "optimum_over_bound": 1.44}
    rows = [ROW, ROW | better, ROW | {"npu": "other"}]
    row = summary("vnpu-64", rows)
    assert row["layers"] == row["proven"] == 2
    assert row["default_geomean"] == 1.1 and row["holds"]
    assert row["worst"] == "C2 a 1.2100"
    assert (row["optimum_over_bound_geomean"], row["optimum_over_bound_max"]) == (1.2, 1.44)
    assert row["smallest_convolution_space"] == 9


def test_knobs_are_what_a_schedule_is_read_from() -> None:
    schedule = Schedule(tile_h=3, order="channel_outer")
    assert Schedule.from_dict(optimum._knobs(schedule)) == schedule
