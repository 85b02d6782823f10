"""Plots and summaries of logs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from tests.tuner.subjects import NPU, tasks
from tests.tuner.test_records import TRIAL
from tvm_vnpu.tuner import History, read_log, tune_tasks
from tvm_vnpu.tuner.log_summary import best_of_tasks, best_records, summary_text
from tvm_vnpu.tuner.plot import curves, svg
from tvm_vnpu.tuner.records import CHECK, Record


def _run(tuner: str, seed: int, *cycles: int | None) -> list[Record]:
    return [
        replace(TRIAL, tuner=tuner, seed=seed, trial=trial, cycles=value,
                schedule=Schedule(tile_h=trial + 1))
        for trial, value in enumerate(cycles)
    ]  # fmt: skip


def test_curves_are_means_over_runs() -> None:
    found = curves([*_run("xgb", 0, 100, 200, 50), *_run("xgb", 1, 100, 100, None, 25)])
    assert found["xgb"] == pytest.approx([1.0, (0.5 * 1) ** 0.5, (2 * 1) ** 0.5, (2 * 4) ** 0.5])


def test_a_plot_is_an_image_with_a_line_for_each_tuner() -> None:
    records = [*_run("xgb", 0, 100, 200, 50), *_run("a<b", 0, 100, 90)]
    picture = ET.fromstring(svg(records, "log & more"))
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 2]
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"xgb", "a<b", "log & more"} <= set(texts)


def test_a_log_without_trials_has_no_plot() -> None:
    for records in ([], _run("xgb", 0, 100)):
        with pytest.raises(VnpuError, match="the tuning log has no trials to plot: tune into it"):
            svg(records, "log")


def test_the_best_of_a_log(tmp_path: Path) -> None:
    tuned = tune_tasks(tasks("conv2d", "dense"), "random", 12, tmp_path / "log")
    records = read_log(tmp_path / "log")
    best = best_of_tasks(records)
    assert [entry.record.cycles for entry in best] == [r.cycles for r in tuned.results]
    assert [entry.default_cycles for entry in best] == [r.default_cycles for r in tuned.results]
    assert all(entry.to_dict()["check"] == "passed" for entry in best)
    assert summary_text(best).count("passed") == 2
    kept = best_records(records)
    assert len(kept) < len(records)
    for task in tasks("conv2d", "dense"):
        expected = History(records).best(task.operator, NPU)
        assert History(kept).best(task.operator, NPU) == expected


def test_a_schedule_that_failed_is_not_the_best() -> None:
    run = _run("xgb", 0, 100, 50, 70)
    failed = replace(run[1], event=CHECK, error="wrong")
    (entry,) = best_of_tasks([*run, failed])
    assert (entry.record.cycles, entry.verdict) == (70, None)
    assert "not checked" in summary_text([entry])
    assert summary_text([]) == "the log holds no measured trial"
