"""Tuning in AutoTVM's manner: extract tasks, tune them into a log, apply the log's best.

Nothing here imports TVM before a module is given, so that worker processes and both environments
can use it; XGBoost is imported when a cost model is trained.
"""

from __future__ import annotations

from typing import Any

from tvm_vnpu import lazy

_HOMES = {
    "Task": "task",
    "graph_tasks": "task",
    "extract_tasks": "extract",
    "tune_tasks": "tune",
    "Tuned": "result",
    "TaskResult": "result",
    "History": "history",
    "apply_history_best": "history",
    "from_history": "history",
    "Record": "records",
    "merge_logs": "records",
    "read_log": "records",
    "searchers": "searchers",
    "InProcess": "measure",
    "Processes": "processes",
    "DaskWorkers": "dask_workers",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    return lazy.load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
