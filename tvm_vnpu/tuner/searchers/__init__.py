"""The searchers by name. Adding one is a file here and a row in `_HOMES`."""

from __future__ import annotations

import importlib
from types import MappingProxyType

import numpy as np

from codegen.ops.base import Operator
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.tuner.cost_model import Featurizer
from tvm_vnpu.tuner.searchers.base import Searcher, Subject
from tvm_vnpu.tuner.task import operator_key

_HOMES = MappingProxyType(
    {"xgb": "xgb.XgbSearcher", "ga": "ga.GaSearcher", "random": "random.RandomSearcher",
     "grid": "grid.GridSearcher"}
)  # fmt: skip


def searchers() -> tuple[str, ...]:
    """Return the names of the searchers."""
    return tuple(_HOMES)


def searcher_class(name: str) -> type[Searcher]:
    """Return a searcher's class. Raises VnpuError for an unknown name."""
    if name not in _HOMES:
        raise VnpuError(
            f"unknown tuner {name!r}", limit=f"one of {', '.join(_HOMES)}", fix="name one of them"
        )
    module, attribute = _HOMES[name].split(".")
    found: type[Searcher] = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    return found


def subject_of(operator: Operator, npu: NpuConfig, seed: int) -> Subject:
    """Return what a searcher searches; its dice depend on the operator and the seed alone.

    Raises ScheduleError where no schedule is legal.
    """
    own = int(operator_key(operator).rpartition("-")[2], 16)
    rng = np.random.default_rng([seed, own])
    return Subject(operator, npu, operator.space(npu), Featurizer(operator, npu), rng)
