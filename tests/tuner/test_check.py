"""Every kind of operator passes its check, and a wrong schedule, value or byte is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from codegen.ops import operators
from codegen.ops.base import Operator, best_schedule
from codegen.ops.convert import Convert
from runtime_sim.errors import CommandError
from tests.tuner.subjects import NPU, operator
from tvm_vnpu.tuner import check
from tvm_vnpu.tuner.check import fault_of

KINDS = [kind for kind in operators() if kind != "reshape"]


@pytest.mark.parametrize("kind", KINDS)
def test_random_points_of_every_kind_pass(kind: str) -> None:
    rng = np.random.default_rng(0)
    for part in operator(kind).parts():
        space = part.space(NPU)
        for _ in range(3):
            assert fault_of(part, space.schedule(space.random(rng)), NPU) == ""


def test_a_schedule_that_is_not_legal_is_a_fault() -> None:
    subject = operator("conv2d")
    schedule = replace(best_schedule(subject, NPU), tile_h=70000)
    assert fault_of(subject, schedule, NPU).startswith("conv2d2: schedule is not legal on vnpu-256")


def _off_by_one(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array = array.copy()
    array.reshape(-1).view(np.uint8)[-1] ^= 1
    return array


@pytest.mark.parametrize("kind", ["conv2d", "eltwise"])
def test_one_wrong_element_is_a_fault(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = operator(kind)
    right = type(subject).reference

    def wrong(self: Operator, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        return _off_by_one(right(self, *inputs))

    monkeypatch.setattr(type(subject), "reference", wrong)
    size = subject.outputs[0].nbytes
    fault = fault_of(subject, best_schedule(subject, NPU), NPU)
    assert fault == f"1 of {size} bytes differ from the reference"


def test_a_part_must_not_touch_what_lies_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = operator("concat", 1).parts()
    first, second = parts[0], parts[1]
    assert isinstance(first, Convert) and first.place != second.place
    moved = replace(first, place=second.place)
    monkeypatch.setattr(check, "_expected", lambda _, given: expected)
    expected = np.full(first.outputs[0].nbytes, 0x5A, np.uint8)
    assert "bytes differ from the reference" in fault_of(moved, best_schedule(moved, NPU), NPU)


def test_an_unsafe_stream_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise CommandError("command 3 races", rule="accesses_ordered")

    monkeypatch.setattr(check, "verify", refuse)
    subject = operator("max_pool")
    assert fault_of(subject, best_schedule(subject, NPU), NPU) == "command 3 races"
