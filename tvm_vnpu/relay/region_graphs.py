"""The NpuGraphs of a module's regions, for the tuner."""

from __future__ import annotations

from collections.abc import Mapping

import tvm

from codegen.graph import NpuGraph
from runtime_sim.npu import NpuConfig
from tvm_vnpu.relay.codegen_hook import region_graph
from tvm_vnpu.relay.partition import partition_for_vnpu
from tvm_vnpu.relay.region_names import region_functions


def region_graphs(
    mod: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray] | None,
    npu: str | NpuConfig,
    rounding: str | None,
) -> list[tuple[NpuGraph, NpuConfig]]:
    """Return the graph and the NPU of every region. Raises as `partition_for_vnpu`.

    A module without regions is partitioned first.
    """
    functions = region_functions(mod)
    if not functions:
        functions = region_functions(partition_for_vnpu(mod, params, npu, rounding=rounding))
    return [region_graph(mod_function) for mod_function in functions.values()]
