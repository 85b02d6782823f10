"""Load an artefact folder: run it, profile it, read its streams."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim.isa.fields import COMMAND_WORDS
from tvm_vnpu.artifact.meta import ArtifactError, Meta, read_meta
from tvm_vnpu.artifact.progress import Progress, silent
from tvm_vnpu.artifact.records import Region
from tvm_vnpu.artifact.spec import Arrays, TensorSpec
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import make_profile
from tvm_vnpu.report.profile import Profile

if TYPE_CHECKING:
    from tvm_vnpu.artifact.runner import Runner


class Artifact:
    """A compiled model in a folder. TVM is imported when it is first run, not before."""

    def __init__(self, folder: Path, meta: Meta) -> None:
        """Wrap a folder whose meta.json has been read; use `load_artifact`."""
        self.folder, self.meta = folder, meta

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Return the model's inputs in call order."""
        return self.meta.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Return the model's outputs in result order."""
        return self.meta.outputs

    def run(self, arrays: Arrays, progress: Progress = silent) -> dict[str, NDArray[Any]]:
        """Return the outputs by the model's own names, computed on the simulated NPU.

        The first axis of each array holds the samples. Raises VnpuError for a wrong name, shape
        or dtype, and for an artefact that was never calibrated.
        """
        return self.runner.run(arrays, progress)

    def profile(self) -> Profile:
        """Return what one inference costs, layer by layer."""
        return make_profile(self.inference)

    @property
    def inference(self) -> Inference:
        """Return one inference, as profile and trace take it."""
        return Inference(
            model=self.meta.source.file,
            npu=self.meta.npu,
            rounding=self.meta.profile,
            calibrated=self.meta.calibrated,
            regions=self.regions,
            operators=self.meta.operators,
        )

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """Return the regions with their command streams. Raises ArtifactError for a bad file."""
        return tuple(self._region(index) for index in range(len(self.meta.regions)))

    @cached_property
    def runner(self) -> Runner:
        """Return the loaded model. Raises VnpuError if it cannot be loaded or run."""
        from tvm_vnpu.artifact.runner import Runner

        if not self.meta.calibrated:
            raise ArtifactError(
                f"artefact {self.folder} is not calibrated: its results mean nothing",
                fix="compile the model with --calib DATA",
            )
        return Runner.load(self.folder / "model.so", self.inputs, self.outputs)

    @cached_property
    def reference(self) -> Runner:
        """Return the model that was compiled, unchanged, on TVM's CPU backend."""
        from tvm_vnpu.artifact.reference import reference_runner

        return reference_runner(self.folder, self.meta)

    def _region(self, index: int) -> Region:
        record = self.meta.regions[index]
        path = self.folder / "regions" / f"{record.name}.bin"
        try:
            words = np.frombuffer(path.read_bytes(), "<u8").reshape(-1, COMMAND_WORDS)
        except (OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if len(words) != record.commands:
            raise _damaged(path, f"{len(words)} commands instead of {record.commands}")
        return Region(record, words.astype(np.uint64))


def _damaged(path: Path, seen: str) -> ArtifactError:
    return ArtifactError(f"cannot read {path}", seen=seen, fix="compile the model again")


def load_artifact(folder: str | os.PathLike[str]) -> Artifact:
    """Open an artefact folder. Raises ArtifactError if it is none, or one of another version."""
    return Artifact(Path(folder), read_meta(Path(folder)))
