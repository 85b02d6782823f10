"""Fixtures of the command tests: the command, a compiled model, its data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.artifact.models import classifier, images, write, write_npz
from tests.cli.command import Command
from tvm_vnpu.artifact import compile_model


@pytest.fixture
def vnpu(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return the command."""
    return Command(capsys)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `model.onnx`, `data.npz` (inputs and labels) and the artefact `dir`."""
    place = tmp_path_factory.mktemp("cli")
    model = write(place, classifier())
    artifact = compile_model(model, place / "dir", calibration=[{"image": images()}])
    labels = artifact.reference.run({"image": images()})["scores"].argmax(1)
    write_npz(place / "data.npz", image=images(), labels=np.asarray(labels, np.int64))
    write_npz(place / "inputs.npz", image=images())
    return place
