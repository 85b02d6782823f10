"""A model's inputs and outputs as its caller sees them, and the check of arrays against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.errors import VnpuError

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output: the model's own name, its shape (None: the symbolic batch), its dtype."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str

    @property
    def has_batch(self) -> bool:
        """Return whether axis 0 takes any length."""
        return bool(self.shape) and self.shape[0] is None

    def shape_text(self) -> str:
        """Return the shape for people, `N` where any length goes."""
        return f"({', '.join('N' if n is None else str(n) for n in self.shape)})"

    def describe(self) -> str:
        """Return name, dtype and shape in one text."""
        return f"{self.name}: {self.dtype} {self.shape_text()}"

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {"name": self.name, "shape": list(self.shape), "dtype": self.dtype}

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> TensorSpec:
        """Return the spec that `to_dict` described."""
        return TensorSpec(table["name"], tuple(table["shape"]), table["dtype"])


def check_inputs(specs: Sequence[TensorSpec], arrays: Arrays) -> int:
    """Check arrays against the inputs and return the number of samples.

    A model of fixed batch B takes any multiple of B along the first axis; an input given once is
    used for every sample. Raises VnpuError for a wrong name, shape or dtype.
    """
    names = [spec.name for spec in specs]
    for name in arrays:
        if name not in names:
            raise VnpuError(
                "the model has no input of this name",
                seen=repr(name),
                limit=f"the inputs are {', '.join(names)}",
                fix="name the arrays after the model's inputs",
            )
    missing = [name for name in names if name not in arrays]
    if missing:
        raise VnpuError(
            f"input {missing[0]!r} is missing",
            seen=", ".join(arrays) or "no arrays",
            fix="name the arrays after the model's inputs",
        )
    counts = {spec.name: _check_input(spec, arrays[spec.name]) for spec in specs}
    return _common_count(specs, counts)


def _check_input(spec: TensorSpec, array: NDArray[Any]) -> int:
    """Return how many samples of its input an array holds."""
    if str(array.dtype) != spec.dtype:
        raise VnpuError(
            f"input {spec.name!r} has the wrong dtype",
            seen=array.dtype,
            limit=spec.dtype,
            fix=f"convert it with astype({spec.dtype!r})",
        )
    count = samples_in(spec, array.shape)
    if count is None:
        multiple = "" if spec.has_batch or not spec.shape else ", or a multiple along axis 0"
        raise VnpuError(
            f"input {spec.name!r} has the wrong shape",
            seen=tuple(array.shape),
            limit=f"{spec.shape_text()}{multiple}",
            fix="reshape the array",
        )
    return count


def samples_in(spec: TensorSpec, shape: Sequence[int]) -> int | None:
    """Return how many samples an array of `shape` holds; None where it does not fit the input."""
    if len(shape) != len(spec.shape) or 0 in shape:
        return None
    if not spec.shape:
        return 1
    if any(w not in (None, n) for w, n in zip(spec.shape[1:], shape[1:])):
        return None
    step = spec.shape[0] or 1
    return shape[0] // step if shape[0] % step == 0 else None


def _common_count(specs: Sequence[TensorSpec], counts: Mapping[str, int]) -> int:
    total = max(counts.values(), default=1)
    bad = [spec for spec in specs if counts[spec.name] not in ({total} | _reusable(spec))]
    if bad:
        raise VnpuError(
            "the inputs have different numbers of samples",
            seen=", ".join(f"{name}: {count}" for name, count in counts.items()),
            fix="give every input the same number",
        )
    return total


def _reusable(spec: TensorSpec) -> set[int]:
    """Return {1} for an input of fixed shape: given once, it serves every sample."""
    return set() if spec.has_batch else {1}


def sample_slice(spec: TensorSpec, array: NDArray[Any], first: int, last: int) -> NDArray[Any]:
    """Return samples [first, last) of an input, contiguous; all of one that is given once."""
    step = (spec.shape[0] or 1) if spec.shape else 1
    if not spec.shape or (not spec.has_batch and array.shape[0] == step):
        return np.ascontiguousarray(array).reshape(array.shape)
    return np.ascontiguousarray(array[first * step : last * step])
