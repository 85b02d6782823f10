"""Features: one row a schedule, finite, alike alone and in a batch, and no timeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen import measure
from codegen.features import FEATURES, features, features_of
from runtime_sim import total_cycles
from tests.codegen.drawn import NPUS
from tests.codegen.test_measure import KINDS, points


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_schedules(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    npu = NPUS["vnpu-256"]
    operator, schedules, _ = points(kind, npu, 3, 8)
    for module, name in ((measure, "lay_out_program"), (total_cycles, "total_cycles")):
        monkeypatch.setattr(module, name, None)
    rows = features_of(operator, schedules, npu)
    assert rows.shape == (8, len(FEATURES)) and np.isfinite(rows).all()
    for schedule, row in zip(schedules, rows, strict=True):
        np.testing.assert_array_equal(features(operator, schedule, npu), row)
    assert features_of(operator, (), npu).shape == (0, len(FEATURES))


def test_features_tell_knobs_apart() -> None:
    npu = NPUS["vnpu-256"]
    operator, (schedule,), _ = points("conv2d", npu, 3, 1)
    schedule = replace(schedule, tile_h=1, order="spatial_outer", weights="stream")
    other = replace(schedule, weights="resident")
    first, second = features_of(operator, (schedule, other), npu)
    assert dict(zip(FEATURES, first))["weights"] == 1
    assert dict(zip(FEATURES, second))["weights"] == 0
    assert dict(zip(FEATURES, first))["log_tile_h"] == 1


def test_names_are_distinct() -> None:
    assert len(set(FEATURES)) == len(FEATURES)
