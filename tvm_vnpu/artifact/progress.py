"""How long steps report how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

Progress = Callable[[str, int, "int | None"], None]
"""Called with (stage, done, total); total is None where it is not known."""

Batch = Mapping[str, NDArray[Any]]


def silent(stage: str, done: int, total: int | None) -> None:
    """Ignore progress."""
    del stage, done, total


def tracked(
    batches: Iterable[Batch], stage: str, total: int | None, progress: Progress
) -> Iterator[Batch]:
    """Yield batches and report the samples that were handed out and worked on."""
    done = 0
    progress(stage, done, total)
    for batch in batches:
        yield batch
        done += max((len(array) for array in batch.values() if array.ndim), default=0)
        progress(stage, done, total)
