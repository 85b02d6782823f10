"""Extract the tuning tasks of a TVM module: Relax or Relay, whichever TVM this environment has."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.task import Task, graph_tasks

DEFAULT_NPU = "vnpu-256"


def extract_tasks(
    mod: Any,
    params: Mapping[str, Any] | None = None,
    npu: str | NpuConfig = DEFAULT_NPU,
    *,
    rounding: str | None = None,
) -> list[Task]:
    """Return the distinct operators of a module's regions as tasks, in the order they run.

    `mod`: a quantised Relax module, or a quantised Relay module with its `params`; one whose
    regions are marked already (Relay's `partition_for_vnpu`, Relax's `annotate_regions`) keeps its
    NPU and its profile. Raises VnpuError for an unknown NPU or profile, a Relax module whose
    regions are compiled already, and where no operator fits the NPU.
    """
    door = "relay" if _is_relay(mod) else "relax"
    regions = importlib.import_module(f"tvm_vnpu.{door}.region_graphs")
    tasks = graph_tasks(regions.region_graphs(mod, params, npu, rounding))
    if not tasks:
        raise VnpuError(
            "the module has no operator to tune",
            limit="an operator that runs on the NPU",
            fix="see the reasons with `vnpu explain`",
        )
    return tasks


def _is_relay(mod: Any) -> bool:
    """Return whether a module's functions are Relay's."""
    return any(type(function).__module__.startswith("tvm.relay") for function in _functions(mod))


def _functions(mod: Any) -> list[Any]:
    return [function for _, function in mod.functions.items()]
