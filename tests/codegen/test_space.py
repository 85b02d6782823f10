"""Schedule spaces: points are legal, distinct and canonical; schedules go through JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from codegen.ops import operators
from codegen.ops.base import Operator
from codegen.schedule import Schedule, ScheduleError
from codegen.space import Knob, Space
from runtime_sim.npu import NpuConfig
from tests.codegen.drawn import NPUS, TINY, WITHOUT_KERNEL, source_of

KINDS = [kind for kind in operators() if kind not in WITHOUT_KERNEL]


def _operator(kind: str, npu: NpuConfig, seed: int) -> Operator:
    source = source_of((seed, KINDS.index(kind)))
    drawn = (operators()[kind].draw(source) for _ in range(100))
    return next(operator for operator in drawn if not operator.rejections(npu))


@pytest.fixture(params=KINDS)
def space(request: pytest.FixtureRequest) -> Space:
    npu = NPUS["vnpu-256"]
    return _operator(request.param, npu, 7).space(npu)


def test_a_schedule_survives_json() -> None:
    schedule = Schedule(tile_h=3, order="channel_outer", unroll=2)
    assert Schedule.from_dict(json.loads(json.dumps(schedule.to_dict()))) == schedule
    assert Schedule.from_dict({"tile_h": 3}) == Schedule(tile_h=3)


@pytest.mark.parametrize(
    ("knobs", "complaint"),
    [
        ({"tile_z": 3}, "unknown knob in a schedule: seen tile_z; limit one of tile_h, "),
        ({"tile_h": "3"}, "knob tile_h has a value of the wrong type: seen '3'; limit int"),
        ({"tile_h": True}, "knob tile_h has a value of the wrong type: seen True; limit int"),
        ({"order": 1}, "knob order has a value of the wrong type: seen 1; limit str"),
    ],
)
def test_a_foreign_schedule_is_refused(knobs: dict[str, object], complaint: str) -> None:
    with pytest.raises(ScheduleError) as error:
        Schedule.from_dict(knobs)
    assert str(error.value).startswith(complaint)


def test_knobs_are_fields_of_the_schedule(space: Space) -> None:
    for knob in space.knobs:
        assert hasattr(Schedule(), knob.name)
        assert len(set(knob.values)) == len(knob.values) >= 1


def test_points_are_legal_distinct_and_canonical(space: Space) -> None:
    points = list(islice(space.points(), 400))
    schedules = [space.schedule(point) for point in points]
    assert len(set(schedules)) == len(points) > 1
    for point, schedule in zip(points, schedules, strict=True):
        assert space.is_legal(point)
        assert space.point_of(schedule) == point
        space.operator.lower(schedule, space.npu)


@pytest.mark.parametrize(("kind", "seed"), [("max_pool", 3), ("conv2d", 25)])
def test_every_point_settles_on_one_that_is_listed(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of convolutions the first values of each knob make a space that can be listed."""
    npu = TINY
    operator = _operator(kind, npu, seed)
    narrow = operator.knobs(npu)
    if kind == "conv2d":
        few = {knob.name: 1 if knob.name == "unroll" else 2 for knob in narrow}
        narrow = tuple(Knob(knob.name, knob.values[: few[knob.name]]) for knob in narrow)
    monkeypatch.setattr(type(operator), "knobs", lambda *_: narrow)
    space = operator.space(npu)
    listed = set(space.points())
    rng = np.random.default_rng(0)
    sizes = [len(knob.values) for knob in space.knobs]
    legal = 0
    for _ in range(2000):
        point = tuple(int(i) for i in rng.integers(0, sizes))
        if space.is_legal(point):
            legal += 1
            assert space.point_of(space.schedule(point)) in listed
    assert legal > 200
    assert len(listed) <= space.size


def test_settling_a_settled_point_changes_nothing(space: Space) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        schedule = space.schedule(space.random(rng))
        assert space.schedule(space.point_of(schedule)) == schedule


def test_random_points_and_their_neighbours(space: Space) -> None:
    rng = np.random.default_rng(1)
    for _ in range(8):
        point = space.random(rng)
        near = space.neighbour(point, rng)
        assert space.is_legal(point) and space.is_legal(near) and near != point
        assert space.point_of(space.schedule(near)) == near


def test_a_seed_repeats_its_points(space: Space) -> None:
    first, second = (
        [space.random(rng) for _ in range(6)]
        for rng in (np.random.default_rng(5), np.random.default_rng(5))
    )
    assert first == second


def test_an_empty_space_is_refused() -> None:
    small = replace(TINY, spm_kib=1, acc_kib=1)
    drawn = (_operator("conv2d", NPUS["vnpu-256"], seed) for seed in range(100))
    operator = next(operator for operator in drawn if operator.rejections(small))
    with pytest.raises(ScheduleError, match="has no legal schedule on tiny-4x8"):
        operator.space(small)


def test_a_schedule_from_elsewhere_is_no_point(space: Space) -> None:
    height = space.operator.outputs[0].hwc[0]
    with pytest.raises(ScheduleError, match="the schedule is not in the space"):
        space.point_of(replace(space.schedule(next(space.points())), tile_h=height + 1000))
