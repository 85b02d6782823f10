"""The tuner's benchmark: known optima are read, gaps and goals follow from the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tuner import gap_rows, goal_rows
from benchmarks.tuner_layers import known_optima, optimum_of
from tvm_vnpu.tuner.task import TaskKey

KEY = TaskKey(1, "code", "digest", "conv2d-00")


def _row(layer: str, gap: float, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"network": "resnet18", "layer": layer, "optimum_over_bound": 1.0}
    row |= {f"{who}_gap_percent": gap for who in ("default", "xgb", "ga", "random")}
    shares = {"tuned_share_of_bound": 0.95, "worst_seed_share_of_bound": 0.91}
    return row | shares | changes


def test_optima_of_all_configurations_are_found(tmp_path: Path) -> None:
    for npu in ("digest", "other"):
        row = {"npu_digest": npu, "operator": "conv2d-00", "optimum_cycles": len(npu)}
        path = tmp_path / f"optimum_{npu}.json"
        path.write_text(json.dumps({"figures": {"summary": [], "layers": [row]}}))
    assert optimum_of(known_optima(tmp_path), KEY) == len("digest")
    assert known_optima(tmp_path / "none") == {}


def test_gaps_are_geometric_means() -> None:
    total = gap_rows([_row("C2", 0.0), _row("C3", 21.0)])[-1]
    assert (total["network"], total["layers"]) == ("all", 2)
    assert total["xgb_geomean_gap_percent"] == pytest.approx(10.0)
    assert total["ga_max_gap_percent"] == pytest.approx(21.0)


def test_goals_hold_or_not() -> None:
    good = goal_rows([_row("C2", 1.0)], 300.0, 3.0)
    assert [goal["holds"] for goal in good] == [True] * 7
    bad = [
        _row(
            "C2",
            21.0,
            optimum_over_bound=None,
            tuned_share_of_bound=0.8,
            worst_seed_share_of_bound=0.7,
        )
    ]
    assert [goal["holds"] for goal in goal_rows(bad, 100.0, 6.0)] == [False] * 7
