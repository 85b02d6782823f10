"""What every data source is: named arrays in batches, read as they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from runtime_sim.errors import VnpuError
from tvm_vnpu.artifact.spec import TensorSpec

Batch = Mapping[str, NDArray[Any]]
LABELS = "labels"
ROWS_PER_BATCH = 32
SCALAR_FIX = "store the samples along axis 0; a scalar input needs module:function"


class DataError(VnpuError):
    """A data set that is missing, unreadable or of the wrong form."""


class DataSet(Protocol):
    """A source of batches; `samples` is how many rows there are, None where nobody knows."""

    @property
    def samples(self) -> int | None:
        """Return the number of rows along axis 0."""

    def batches(self) -> Iterator[Batch]:
        """Yield dicts of arrays; reading starts anew with every call."""


def rows_per_batch(inputs: Sequence[TensorSpec]) -> int:
    """Return how many rows to read at once: about 32, a multiple of a fixed batch."""
    fixed = max((spec.shape[0] or 1 for spec in inputs if spec.shape), default=1)
    return fixed * -(-ROWS_PER_BATCH // fixed)


def without_labels(batches: Iterable[Batch], inputs: Sequence[TensorSpec]) -> Iterator[Batch]:
    """Yield batches without their labels, so that one file calibrates and validates."""
    names = {spec.name for spec in inputs}
    for batch in batches:
        yield {name: array for name, array in batch.items() if name in names or name != LABELS}


def find_labels(keys: Iterable[str], inputs: Sequence[TensorSpec], wanted: str | None) -> str:
    """Return the key of the labels: `wanted`, else `labels`, else the one key that is no input.

    Raises DataError where there is none or more than one.
    """
    names = {spec.name for spec in inputs}
    keys = list(keys)
    others = [key for key in keys if key not in names]
    if wanted is not None:
        others = [key for key in keys if key == wanted]
    elif LABELS in others:
        others = [LABELS]
    if len(others) != 1:
        raise DataError(
            "the validation set has no labels" if not others else "which array holds the labels?",
            seen=f"arrays {', '.join(keys) or 'none'}",
            limit=f"one array {wanted or LABELS!r} beside the inputs {', '.join(names)}",
            fix="add it to the data, or name it with --labels",
        )
    return others[0]
