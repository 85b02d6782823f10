"""Run a compiled Relax module on named arrays with any number of samples."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

import tvm_vnpu.relax  # registers the driver that compiled regions call
from runtime_sim.errors import VnpuError
from tvm_vnpu.artifact.progress import Progress, silent
from tvm_vnpu.artifact.spec import Arrays, TensorSpec, check_inputs, sample_slice

assert tvm_vnpu.relax
_ROWS_PER_CALL = 64


class Runner:
    """A loaded module with the names of its inputs and outputs."""

    def __init__(
        self, executable: Any, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> None:
        """Wrap an executable, as `tvm.compile` returns it or as it was loaded from a file."""
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    @staticmethod
    def load(path: Path, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Runner:
        """Load an exported module. Raises VnpuError if the file cannot be loaded."""
        try:
            executable = _load_anew(path)
        except Exception as error:  # the loader raises OSError, RuntimeError or tvm's own errors
            raise VnpuError(
                f"cannot load {path}",
                seen=(str(error).strip().splitlines() or [type(error).__name__])[-1],
                fix="compile the model again on this machine",
            ) from error
        return Runner(executable, inputs, outputs)

    def run(self, arrays: Arrays, progress: Progress = silent) -> dict[str, NDArray[Any]]:
        """Return the outputs by name for the inputs by name.

        The first axis holds the samples: a symbolic batch takes any number at once, a model of
        fixed batch runs once for each and the results are concatenated. Raises VnpuError for a
        wrong name, shape or dtype.
        """
        count = check_inputs(self.inputs, arrays)
        parts: list[list[NDArray[Any]]] = []
        for first, last in self._calls(count):
            progress("run", first, count)
            given = [sample_slice(spec, arrays[spec.name], first, last) for spec in self.inputs]
            parts.append(self._call(given))
        progress("run", count, count)
        columns = list(zip(*parts, strict=True))
        return {spec.name: _joined(column) for spec, column in zip(self.outputs, columns)}

    def _calls(self, count: int) -> Iterator[tuple[int, int]]:
        step = _ROWS_PER_CALL if any(spec.has_batch for spec in self.inputs) else 1
        for first in range(0, count, step):
            yield first, min(first + step, count)

    def _call(self, given: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        result = self._main(*(tvm.runtime.tensor(array) for array in given))
        tensors = [result] if hasattr(result, "numpy") else list(result)
        return [tensor.numpy() for tensor in tensors]


def _load_anew(path: Path) -> Any:
    """Load a library under a name that nobody has used.

    The system hands out a library that this process holds by its name, although the file may be
    another by now; TVM follows symbolic links before it asks.
    """
    with tempfile.TemporaryDirectory(prefix="vnpu-") as folder:
        fresh = Path(folder) / path.name
        try:
            os.link(path, fresh)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(path, fresh)
        return tvm.runtime.load_module(str(fresh))


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts[0].ndim else np.stack(parts)
