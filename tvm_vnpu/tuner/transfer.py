"""What the cost model can learn before it has results of its own: other tasks' results."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import numpy as np

from codegen.features import FEATURES
from tvm_vnpu.tuner.code_version import code_version
from tvm_vnpu.tuner.cost_model import Experience, model_row
from tvm_vnpu.tuner.records import TRIAL, PathLike, Record, read_log
from tvm_vnpu.tuner.task import TaskKey

_log = logging.getLogger(__name__)

MOST = 16
"""How many tasks a model is trained on at most, the latest of the same kind of operator."""


class Transfer:
    """Results by kind of operator, the latest last."""

    def __init__(self) -> None:
        """Start with none."""
        self._found: list[tuple[str, Experience]] = []

    @staticmethod
    def of_logs(paths: Iterable[PathLike]) -> Transfer:
        """Return the results of logs. Raises LogError as `read_log`.

        Features change with the code: records of another version are left out.
        """
        transfer = Transfer()
        for path in paths:
            tasks: dict[TaskKey, list[Record]] = {}
            for record in read_log(path):
                if record.event == TRIAL and record.key.code == code_version():
                    tasks.setdefault(record.key, []).append(record)
            if not tasks:
                _log.warning("%s: no record of this version of the code to learn from", path)
            for key, records in tasks.items():
                transfer.add(_kind(key), _experience(records))
        return transfer

    def add(self, kind: str, experience: Experience) -> None:
        """Keep the results of a task."""
        if experience.rows:
            self._found.append((kind, experience))

    def for_kind(self, kind: str) -> list[Experience]:
        """Return what a task of this kind learns from."""
        return [found for other, found in self._found if other == kind][-MOST:]


def _kind(key: TaskKey) -> str:
    return key.operator.rpartition("-")[0]


def _experience(records: list[Record]) -> Experience:
    """Return the distinct results of one task; none where the default's features are missing."""
    usable = [r for r in records if r.cycles is not None and len(r.features) == len(FEATURES)]
    default = next((record for record in usable if record.trial == 0), None)
    experience = Experience()
    if default is not None:
        unit = np.array(default.features)
        for record in {record.schedule: record for record in usable}.values():
            assert record.cycles is not None
            experience.add(model_row(np.array(record.features), unit), record.cycles)
    return experience
