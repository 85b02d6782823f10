"""The NpuGraphs of a module's regions, for the tuner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from codegen.graph import NpuGraph
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.relax.codegen_hook import region_graph
from tvm_vnpu.relax.partition import annotate_regions, region_functions


def region_graphs(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    npu: str | NpuConfig,
    rounding: str | None,
) -> list[tuple[NpuGraph, NpuConfig]]:
    """Return the graph and the NPU of every region. Raises as `annotate_regions`.

    A module without region functions gets them first.
    """
    if params:
        raise VnpuError("a Relax module takes no params here", fix="bind them with BindParams")
    functions = region_functions(mod)
    if not functions:
        functions = region_functions(annotate_regions(mod, npu, rounding=rounding).mod)
    return [region_graph(function) for function in functions.values()]
