"""The harness finds every kind of fault that it looks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codegen.kernel import Instr
from codegen.ops.base import Work
from codegen.ops.conv2d import Conv2D
from codegen.program import NpuProgram, build_program
from tests.codegen import harness
from tests.codegen.drawn import NPUS, draw_case
from tests.codegen.harness import check, check_all

CASE = draw_case("conv2d", NPUS["vnpu-256"], (7,))
CHAIN = replace(draw_case("graph", NPUS["vnpu-256"], (4,)), stripes=1)


def test_a_good_case_passes() -> None:
    timelines = check_all([CASE, CASE])
    assert timelines[0].total == timelines[1].total > 0


def test_one_operator_is_a_case() -> None:
    operator = CASE.graph.operators[0]
    assert check(operator, CASE.npu, CASE.inputs).total > 0


def test_a_wrong_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Conv2D.reference

    def wrong(self: Conv2D, *inputs: Any) -> Any:
        result = right(self, *inputs).copy()
        result.flat[-1] += 1
        return result

    monkeypatch.setattr(Conv2D, "reference", wrong)
    with pytest.raises(AssertionError, match="Mismatched elements: 1 /"):
        check_all([CASE])


def test_another_c_stream_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = harness.emitted_streams

    def wrong(*args: Any) -> Any:
        streams = right(*args)
        streams["case0"][0, 0] ^= np.uint64(1 << 8)
        return streams

    monkeypatch.setattr(harness, "emitted_streams", wrong)
    with pytest.raises(AssertionError, match=r"command 0 differs .*'issue'"):
        check_all([CASE])


def test_an_unsafe_stream_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_fences(*args: Any) -> NpuProgram:
        program = build_program(*args)
        fence = "FENCE"
        body = tuple(
            node
            for node in program.entry.body
            if not (isinstance(node, Instr) and node.mnemonic == fence)
        )
        return replace(program, entry=replace(program.entry, body=body))

    monkeypatch.setattr(harness, "build_program", without_fences)
    with pytest.raises(AssertionError, match="has certainly"):
        check_all([CHAIN])


def test_a_timeline_below_the_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Work, "cycles", lambda self, npu: 1e9)
    with pytest.raises(AssertionError, match="cycles, below the bound of"):
        check_all([CASE])
