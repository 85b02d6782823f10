"""A region that does not fit as a whole goes back to the CPU."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tvm
from tvm import relay

from runtime_sim.driver import MAX_ARGUMENTS
from tests.relay.graphs import image, module, values
from tests.relay.running import both, exact
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.explanation import REGION_REFUSED
from tvm_vnpu.relay.region_names import region_functions

INPUTS = MAX_ARGUMENTS + 2


def _many_inputs() -> tvm.IRModule:
    total: relay.Expr = image(1, 4, 4, 4, name="x0")
    for number in range(1, INPUTS):
        total = relay.maximum(total, image(1, 4, 4, 4, name=f"x{number}"))
    return module(relay.nn.max_pool2d(total, (2, 2)))


def test_a_region_with_too_many_arguments(caplog: pytest.LogCaptureFixture) -> None:
    mod = _many_inputs()
    with exact(), caplog.at_level(logging.WARNING):
        assert not region_functions(partition_for_vnpu(mod))
        assert {p.reason for p in explain(mod).placements} == {REGION_REFUSED}
    assert f"it has {INPUTS + 1} inputs and outputs; limit {MAX_ARGUMENTS}" in caplog.text
    feeds = {f"x{number}": values(1, 4, 4, 4, seed=number) for number in range(INPUTS)}
    expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])
