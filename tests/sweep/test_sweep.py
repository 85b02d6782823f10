"""Sweeps: rows equal profiles, what is wrong with one is its reason, processes and their deaths."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runtime_sim import npu
from runtime_sim.errors import VnpuError
from tests.artifact.models import classifier, wide, write
from tests.sweep import dying
from tvm_vnpu.artifact import profile_model
from tvm_vnpu.sweep import Sweep, parse_settings, sweep
from tvm_vnpu.sweep.result import Figures
from tvm_vnpu.sweep.run import DIED

SETTINGS = parse_settings(["array=8x8,0x16,16x16", "spm_kib=64,128"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sweep"), classifier())


@pytest.fixture(scope="module")
def result(model: Path) -> Sweep:
    return sweep(model, SETTINGS, jobs=1)


def test_rows_come_in_the_order_of_the_product(result: Sweep) -> None:
    found = [tuple(row.settings.values()) for row in result.rows]
    assert found == [(a, s) for a in ("8x8", "0x16", "16x16") for s in ("64", "128")]
    assert (result.model, result.npu, result.calibrated) == ("model.onnx", "vnpu-256", False)


def test_a_row_is_the_profile_of_its_configuration(result: Sweep, model: Path) -> None:
    config = replace(npu.load("vnpu-256"), spm_kib=64)
    row = result.rows[4]
    assert row.figures == Figures.of(profile_model(model, npu=config))
    assert (row.npu_digest, row.reason) == (config.digest(), "")


def test_an_impossible_array_is_a_row(result: Sweep) -> None:
    for row in result.rows[2:4]:
        assert (row.figures, row.npu_digest) == (None, "")
        assert row.reason == "array_rows = 0 (an integer from 1 to 256)"


def test_processes_give_the_same_rows(result: Sweep, model: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    parallel = sweep(model, SETTINGS, jobs=2, progress=lambda *step: seen.append(step))
    assert parallel == result
    assert seen == [("sweep", done, 6) for done in range(7)]


def test_capabilities_partition_anew(model: Path) -> None:
    settings = {"capabilities.asymmetric_activations": (True, False)}
    rows = sweep(model, settings, jobs=1).rows
    assert [row.reason for row in rows] == ["", ""]
    assert {row.figures.cpu_operators for row in rows if row.figures} == {0}


def test_operators_that_do_not_fit_are_counted(repository: Path, tmp_path: Path) -> None:
    fashion_mnist = repository / "examples" / "fashion_mnist" / "model.onnx"
    (row,) = sweep(fashion_mnist, {"acc_kib": (1,), "spm_kib": (1,)}, jobs=1).rows
    assert row.figures is not None and 0 < row.figures.cpu_operators < row.figures.operators
    assert row.reason == (
        f"{row.figures.cpu_operators} on the CPU, first /f/f.1/f.1.0/Conv: "
        "no tile of it fits the memories of vnpu-256"
    )
    (row,) = sweep(write(tmp_path, wide()), {"spm_kib": (1,), "acc_kib": (1,)}, jobs=1).rows
    assert row.figures is None and row.npu_digest != ""
    assert row.reason.startswith("no operator of model.onnx runs on NPU 'vnpu-256': seen wide/Conv")


def test_a_fault_of_the_compiler_costs_its_own_row(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("one\ntwo")

    monkeypatch.setattr("tvm_vnpu.sweep.measure.timed_inference", fail)
    (row,) = sweep(model, {"lanes": (8,)}, jobs=1).rows
    assert row.reason == "internal error: ZeroDivisionError: one two"


def test_a_dying_process_costs_one_row(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_vnpu.sweep.run.measure", dying.dies_on_two_lanes)
    rows = sweep(model, {"lanes": (1, 2, 3)}, jobs=2).rows
    assert [(row.settings["lanes"], row.reason) for row in rows] == [
        ("1", "fine"), ("2", DIED), ("3", "fine"),
    ]  # fmt: skip


def test_a_process_that_dies_first_takes_no_other_row(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_vnpu.sweep.run.measure", dying.dies_on_two_lanes)
    rows = sweep(model, {"lanes": (2, 1)}, jobs=2).rows  # the pool may break before a row is there
    assert [row.reason for row in rows] == [DIED, "fine"]


def test_no_process_survives(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_vnpu.sweep.run.measure", dying.dies_on_two_lanes)
    with pytest.raises(VnpuError) as caught:
        sweep(model, {"lanes": (2,), "spm_kib": (64, 128)}, jobs=2)
    assert str(caught.value) == (
        'no worker process of the sweep survived: call sweep under `if __name__ == "__main__":`, '
        "or use jobs=1"
    )


def test_csv_and_json_hold_every_row(result: Sweep) -> None:
    stream = io.StringIO()
    result.write_csv(stream)
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [(row["array"], row["spm_kib"]) for row in rows] == [
        tuple(row.settings.values()) for row in result.rows
    ]
    table = json.loads(json.dumps(result.to_dict()))
    assert table["swept"] == ["array", "spm_kib"] and len(table["rows"]) == 6
    for text, row in zip(rows, table["rows"]):
        assert {name: value or None for name, value in text.items()} == {
            name: None if value in (None, "") else str(value) for name, value in row.items()
        }


def test_a_sweep_is_text_and_html(result: Sweep) -> None:
    lines = str(result).splitlines()
    assert lines[0] == "model.onnx on vnpu-256 with changes, one inference each"
    assert lines[2].split()[:3] == ["array", "spm_kib", "cycles"] and len(lines) == 10
    assert result._repr_html_().count("<tr>") == 7


@pytest.mark.parametrize(
    ("settings", "options", "line"),
    [
        ({"lane": (1,)}, {}, "an NPU configuration has no such field: seen 'lane'; "),
        ({"lanes": (1,)}, {"jobs": 0}, "a sweep needs a process: seen 0 jobs; limit at least 1"),
        ({"lanes": (1,)}, {"npu": "vnpu-1"}, "unknown NPU 'vnpu-1'"),
        ({"lanes": (1,)}, {"rounding": "up"}, "unknown rounding profile 'up'"),
    ],
)
def test_what_is_wrong_with_all_rows_is_an_error(
    model: Path, settings: dict[str, tuple[int, ...]], options: dict[str, object], line: str
) -> None:
    with pytest.raises(VnpuError) as caught:
        sweep(model, settings, **options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(line)


def test_the_package_imports_nothing_before_it_is_used() -> None:
    code = "import sys, tvm_vnpu.sweep\nassert not {'tvm', 'onnx', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
