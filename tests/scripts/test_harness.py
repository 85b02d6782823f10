"""The benchmark harness: result files, tables, arguments."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest

from benchmarks import harness


def test_a_result_file_holds_figures_and_how_they_came(tmp_path: Path) -> None:
    figures = {"top1": np.float64(91.5), "cycles": np.int64(12), "sizes": np.arange(3)}
    path = harness.write_result("net", figures, {"npu": "vnpu-256"}, folder=tmp_path / "new")
    result = json.loads(path.read_text())
    assert path == tmp_path / "new" / "net.json"
    assert result["figures"] == {"top1": 91.5, "cycles": 12, "sizes": [0, 1, 2]}
    assert result["configuration"] == {"npu": "vnpu-256"}
    assert result["versions"]["python"] == platform.python_version()
    assert result["versions"]["numpy"] == np.__version__
    assert str(harness.ROOT) not in result["command"]
    assert len(result["date"]) == len("2026-01-31")


def test_a_result_refuses_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        harness.write_result("net", {"top1": float("nan")}, {}, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_result_refuses_other_types(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not set$"):
        harness.write_result("net", {"top1": {1, 2}}, {}, folder=tmp_path)


def test_tables_align() -> None:
    table = harness.format_table([["conv", 12000, 0.5], ["add", 7, 123.456]], ["layer", "n", "ms"])
    assert table.splitlines() == [
        "layer       n      ms",
        "-----  ------  ------",
        "conv   12,000     0.5",
        "add         7  123.46",
    ]


def test_a_table_refuses_a_short_row() -> None:
    with pytest.raises(ValueError, match=r"row \['conv'\] has 1 cells, the table 2 columns"):
        harness.format_table([["conv"]], ["layer", "n"])


def test_print_table(capsys: pytest.CaptureFixture[str]) -> None:
    harness.print_table([[1]], ["n"])
    assert capsys.readouterr().out == "n\n-\n1\n"


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        ([], harness.RESULTS),
        (["--quick"], harness.QUICK_RESULTS),
        (["--quick", "--results", "elsewhere"], Path("elsewhere")),
    ],
)
def test_a_quick_run_keeps_recorded_results(arguments: list[str], folder: Path) -> None:
    parsed = harness.argument_parser("test").parse_args(arguments)
    assert harness.results_folder(parsed) == folder
