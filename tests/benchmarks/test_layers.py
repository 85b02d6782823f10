"""The layer table and the goals it is judged by, on a small ResNet-18."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.layers import MAIN, Compiled, compiled, goal_rows, layer_rows, summary_row
from benchmarks.networks import RESNET18_LAYERS, resnet18


@pytest.fixture(scope="module")
def run() -> Compiled:
    return compiled("resnet18", resnet18(32), MAIN)


def test_rows_are_the_layers_with_their_numbers(run: Compiled) -> None:
    rows = layer_rows(run.profile.layers)
    numbers = {row["number"]: row["layer"] for row in rows if row["number"]}
    assert list(numbers) == ["C1", "C2", "C3", "C5", "C4", "C6", "C8", "C7", "C9", "C11", "C10"]
    assert all(RESNET18_LAYERS[number] in layer for number, layer in numbers.items())
    for row in rows:
        assert row["ratio"] >= 1 and 0 < row["busy_percent"] <= 100
    no_numbers = layer_rows(run.profile.layers[-2:])
    assert all("number" not in row for row in no_numbers)


def test_the_summary_names_the_worst_layer(run: Compiled) -> None:
    row = summary_row(run)
    assert 1 <= row["geomean_ratio"] <= row["max_ratio"] == round(max(run.ratios), 3)
    assert row["regions"] == 1 and row["compile_seconds"] > 0


def test_goals_hold_or_not(run: Compiled) -> None:
    perfect = replace(
        run,
        seconds=1.0,
        profile=replace(
            run.profile,
            layers=tuple(replace(x, cycles=x.lower_bound_cycles) for x in run.profile.layers),
        ),
    )
    networks = {"efficientnet_lite0": perfect, "resnet18": perfect}
    assert [row["holds"] for row in goal_rows(networks, [perfect])] == [True] * 4
    assert goal_rows(networks, [perfect])[2]["reached"] == "100.0% (C2)"
    slow = replace(
        perfect,
        seconds=21.0,
        profile=replace(
            run.profile,
            layers=tuple(replace(x, cycles=2 * x.lower_bound_cycles) for x in run.profile.layers),
        ),
    )
    networks = {"efficientnet_lite0": slow, "resnet18": slow}
    assert [row["holds"] for row in goal_rows(networks, [perfect, slow])] == [False] * 4
