"""Check calibration batches against a module's inputs before anything runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tvm

from runtime_sim.errors import VnpuError
from tvm_vnpu.relax.names import input_names

Batch = Mapping[str, np.ndarray]


def checked_batches(mod: tvm.IRModule, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Return the batches as an iterator of checked ones.

    A list is checked whole at once, a stream batch by batch, its first one now. Raises VnpuError
    for an empty set, a wrong input name, shape or dtype, and for NaN or infinity.
    """
    if isinstance(batches, Mapping):
        batches = [batches]
    if isinstance(batches, Sequence):
        for index, batch in enumerate(batches):
            check_batch(mod, batch, index)
        checked: Iterator[Batch] = iter(batches)
    else:
        checked = (_passed(mod, batch, index) for index, batch in enumerate(batches))
    first = next(checked, None)
    if first is None:
        raise VnpuError(
            "the calibration set is empty",
            seen="0 batches",
            limit="at least 1 batch",
            fix="give some of the training data",
        )
    return itertools.chain([first], checked)


def _passed(mod: tvm.IRModule, batch: Batch, index: int) -> Batch:
    check_batch(mod, batch, index)
    return batch


def check_batch(mod: tvm.IRModule, batch: Batch, index: int) -> None:
    """Raise VnpuError unless batch number `index` fits the inputs of the module."""
    names = input_names(mod)
    for name in batch:
        if name not in names:
            raise VnpuError(
                f"calibration batch {index} has an input the model does not have",
                seen=repr(name),
                limit=f"the inputs are {', '.join(names)}",
                fix="name the arrays after the model's inputs",
            )
    for name, param in zip(names, mod["main"].params):
        if name not in batch:
            raise VnpuError(
                f"calibration batch {index} lacks input {name!r}",
                seen=", ".join(batch) or "no arrays",
                fix="name the arrays after the model's inputs",
            )
        _check_array(f"calibration batch {index}, input {name!r}", batch[name], param.ty)
    _check_symbolic_rows(mod, batch, index)


def _check_symbolic_rows(mod: tvm.IRModule, batch: Batch, index: int) -> None:
    """Raise VnpuError where inputs that share the symbolic batch have different lengths."""
    rows = {
        name: len(batch[name])
        for name, param in zip(input_names(mod), mod["main"].params)
        if static_shape(param.ty)[:1] == [None]
    }
    if len(set(rows.values())) > 1:
        raise VnpuError(
            f"the inputs of calibration batch {index} have different numbers of samples",
            seen=", ".join(f"{name}: {count}" for name, count in rows.items()),
            fix="give every input the same number, or pin shapes with --shape",
        )


def _check_array(where: str, value: np.ndarray, wanted: tvm.ir.Type) -> None:
    dtype = str(wanted.dtype)
    if not isinstance(value, np.ndarray) or str(value.dtype) != dtype:
        raise VnpuError(
            f"{where} has the wrong dtype",
            seen=str(getattr(value, "dtype", type(value).__name__)),
            limit=dtype,
            fix=f"convert it to a {dtype} array",
        )
    shape = static_shape(wanted)
    if not _fits(value.shape, shape):
        text = ", ".join("?" if size is None else str(size) for size in shape)
        raise VnpuError(
            f"{where} has the wrong shape",
            seen=str(tuple(value.shape)),
            limit=f"({text}), any multiple of it along the first axis" if shape else "a scalar, ()",
            fix="reshape the data",
        )
    if np.issubdtype(value.dtype, np.floating) and not np.isfinite(value).all():
        raise VnpuError(
            f"{where} holds NaN or infinity",
            seen=f"{int(np.count_nonzero(~np.isfinite(value)))} of {value.size} values",
            limit="finite values",
            fix="clean the calibration data",
        )


def static_shape(ty: tvm.ir.Type) -> list[int | None]:
    """Return the sizes of a tensor type, None for a symbolic one."""
    return [int(dim) if hasattr(dim, "value") else None for dim in ty.shape]


def _fits(actual: tuple[int, ...], wanted: list[int | None]) -> bool:
    if len(actual) != len(wanted) or 0 in actual:
        return False
    if not wanted:
        return True
    multiple = wanted[0] is None or actual[0] % wanted[0] == 0
    return multiple and all(w is None or a == w for a, w in zip(actual[1:], wanted[1:]))


def split_batch(mod: tvm.IRModule, batch: Batch) -> Iterator[Batch]:
    """Yield contiguous parts of a batch with the module's first axis; all of it if symbolic."""
    sizes = {
        name: static_shape(param.ty) for name, param in zip(input_names(mod), mod["main"].params)
    }
    steps = {name: shape[0] for name, shape in sizes.items() if shape and shape[0] is not None}
    if not steps:
        yield batch
        return
    counts = {name: batch[name].shape[0] // step for name, step in steps.items()}
    if len(set(counts.values())) > 1:
        raise VnpuError(
            "the inputs of a calibration batch have different numbers of samples",
            seen=", ".join(f"{name}: {count}" for name, count in counts.items()),
            fix="give every input the same number",
        )
    for index in range(next(iter(counts.values()))):
        yield {
            name: np.ascontiguousarray(value[index * steps[name] : (index + 1) * steps[name]])
            if name in steps
            else value
            for name, value in batch.items()
        }
