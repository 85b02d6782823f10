"""What a knob is worth is asked of the layers whose optimum is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks import knobs, optimum
from benchmarks.knobs import WITHOUT, Subjects, answered, gain_of_unrolling, known_layers, narrowed
from codegen.schedule import RANGES, Schedule

ADDITION = Subjects(("vnpu-256",), ("layer4.0.add",), 50)


@pytest.fixture(autouse=True, scope="module")
def without_weights() -> Iterator[None]:
    """Ask ResNet-18's layers only: EfficientNet's weights are a package of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "MODELS", {"resnet18": optimum.MODELS["resnet18"]})
        known_layers.cache_clear()
        yield
    known_layers.cache_clear()


@pytest.mark.parametrize("without", WITHOUT)
def test_what_is_taken_away_is_a_knob_and_what_is_left_are_values_of_it(without: str) -> None:
    name, left = WITHOUT[without]
    (addition,) = known_layers(ADDITION, "vnpu-256")
    whole = {knob.name: knob.values for knob in addition.layer.operator.knobs(addition.layer.npu)}
    part = {
        k.name: k.values for k in narrowed(addition.layer.operator, addition.layer.npu, without)
    }
    assert name in RANGES
    assert {key: part[key] for key in part if key != name} == {
        key: whole[key] for key in whole if key != name
    }
    assert set(part.get(name, ())) <= set(whole.get(name, ())) and all(
        value in left for value in part.get(name, ()) if not name.startswith("tile_")
    )


def test_a_knob_that_moves_an_optimum_and_one_that_does_not() -> None:
    yes = answered(ADDITION, "second input buffers")
    assert (yes["worth"], yes["npu"], yes["layer"]) == (
        "yes",
        "vnpu-256",
        "- layer4.0.add + layer4.0.relu",
    )
    assert float(yes["times_at_most"]) >= 1 + knobs.WORTH
    no = answered(ADDITION, "unroll")
    assert (no["worth"], no["layers"]) == ("no", 1)
    assert 1 <= float(no["times_at_most"]) < 1 + knobs.WORTH


def test_a_knob_that_no_layer_has() -> None:
    assert answered(ADDITION, "packed_taps")["layers"] == 0


def test_the_plain_value_takes_the_place_of_the_lost_one() -> None:
    (addition,) = known_layers(ADDITION, "vnpu-256")
    part = narrowed(addition.layer.operator, addition.layer.npu, "third input buffers")
    plain = Schedule(tile_oc=32)
    assert knobs._neutral(replace(plain, in_buffers=3), part) == [replace(plain, in_buffers=2)]
    assert knobs._neutral(replace(plain, in_buffers=1), part) == []


def test_unrolling_is_tried_on_random_schedules() -> None:
    row = gain_of_unrolling(ADDITION, "vnpu-256")
    assert row["random_schedules"] == knobs.DRAWS
    assert 0 <= float(row["mean_gain"].rstrip("%")) <= float(row["largest_gain"].rstrip("%"))
