"""Accuracy of an artefact on labelled data, beside the model it was compiled from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.errors import VnpuError
from tvm_vnpu.artifact.load import Artifact
from tvm_vnpu.artifact.progress import Progress, silent, tracked
from tvm_vnpu.data.dataset import DataError, DataSet, find_labels
from tvm_vnpu.report.table import html_table

_TOP5_CLASSES = 5


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Shares of samples, 0 to 1; `top5` is None for five classes or fewer."""

    top1: float
    top5: float | None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Accuracy on the NPU, and of the source model where it was run.

    `reference_kind` is `float`, or `quantized` for a model that came quantised; `agreement` the
    share of samples for which both have the same best class. Speed is that of the simulator.
    """

    samples: int
    npu: Accuracy
    reference: Accuracy | None
    reference_kind: str
    agreement: float | None
    images_per_second: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def rows(self) -> list[list[str]]:
        """Return the table: a row for each model."""
        named = [("vNPU, simulated", self.npu)]
        if self.reference is not None:
            named.append((f"{self.reference_kind} model, CPU", self.reference))
        return [
            [name, percent_fine(a.top1), "" if a.top5 is None else percent_fine(a.top5)]
            for name, a in named
        ]

    def _repr_html_(self) -> str:
        """Return the evaluation as HTML for notebooks."""
        return html_table(("model", "top-1", "top-5"), self.rows())


def percent_fine(share: float) -> str:
    """Show a share as per cent with two decimals."""
    return f"{share:.2%}"


def evaluate(
    artifact: Artifact,
    data: DataSet,
    *,
    labels: str | None = None,
    reference: bool = True,
    progress: Progress = silent,
) -> Evaluation:
    """Return top-1 and top-5 on labelled data.

    `labels` names their array (default: `labels`, else the one that is no input). `reference` runs
    the source model too. The first output holds the class scores. Raises VnpuError for bad data.
    """
    npu, source = _Count(), _Count()
    agreed, seconds = 0, 0.0
    artifact.runner  # noqa: B018  (loaded before the clock starts)
    for batch in tracked(data.batches(), "evaluate", data.samples, progress):
        key = find_labels(batch, artifact.inputs, labels)
        wanted = _labels(batch[key], key)
        inputs = {name: array for name, array in batch.items() if name != key}
        begin = time.perf_counter()
        scores = _scores(artifact.run(inputs), wanted)
        seconds += time.perf_counter() - begin
        npu.add(scores, wanted)
        if reference:
            others = _scores(artifact.reference.run(inputs), wanted)
            source.add(others, wanted)
            agreed += int((scores.argmax(1) == others.argmax(1)).sum())
    if npu.samples == 0:
        raise DataError("the validation set is empty", seen="0 samples", limit="at least 1")
    return Evaluation(
        samples=npu.samples,
        npu=npu.accuracy(),
        reference=source.accuracy() if reference else None,
        reference_kind=artifact.meta.source.kind,
        agreement=agreed / npu.samples if reference else None,
        images_per_second=npu.samples / max(seconds, 1e-9),
    )


class _Count:
    """Counts right answers."""

    def __init__(self) -> None:
        self.samples = self.best = self.among_five = self.classes = 0

    def add(self, scores: NDArray[Any], labels: NDArray[np.int64]) -> None:
        self.samples += len(labels)
        self.classes = scores.shape[1]
        self.best += int((scores.argmax(1) == labels).sum())
        top = np.argsort(-scores, axis=1, kind="stable")[:, :_TOP5_CLASSES]
        self.among_five += int((top == labels[:, None]).any(axis=1).sum())

    def accuracy(self) -> Accuracy:
        top5 = self.among_five / self.samples if self.classes > _TOP5_CLASSES else None
        return Accuracy(self.best / self.samples, top5)


def _labels(array: NDArray[Any], key: str) -> NDArray[np.int64]:
    if array.dtype.kind not in "iu" or array.size != len(array):
        raise DataError(
            f"the labels {key!r} are no class numbers",
            seen=f"{array.dtype} of shape {tuple(array.shape)}",
            limit="one integer for each sample",
        )
    return array.reshape(-1).astype(np.int64)


def _scores(outputs: Mapping[str, NDArray[Any]], labels: NDArray[np.int64]) -> NDArray[Any]:
    name, scores = next(iter(outputs.items()))
    if scores.ndim < 2 or scores.size != len(labels) * scores.shape[1]:
        raise VnpuError(
            f"output {name!r} holds no class scores",
            seen=f"shape {tuple(scores.shape)} for {len(labels)} labels",
            limit="(samples, classes)",
            fix="evaluate a classifier, or use `vnpu run`",
        )
    flat = scores.reshape(len(labels), -1)
    # Unsigned scores have no negative for the sort.
    return flat if flat.dtype.kind == "f" else flat.astype(np.int64)
