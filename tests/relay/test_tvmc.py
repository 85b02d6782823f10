"""tvmc compiles for `vnpu, llvm` once the door's module is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.relay.running import exact, run
from tests.source import ROOT
from tvm_vnpu.relay import from_onnx, load_onnx, partition_for_vnpu

MODEL = ROOT / "tests" / "cases" / "B05.onnx"


def test_tvmc_compiles_and_runs_a_model(tmp_path: Path) -> None:
    package, result = tmp_path / "model.tar", tmp_path / "result.npz"
    with np.load(MODEL.with_suffix(".npz")) as data:
        feeds = {key[3:]: data[key] for key in data.files if key.startswith("in_")}
    np.savez(tmp_path / "feeds.npz", **feeds)
    tvmc = [sys.executable, "-m", "tvm_vnpu.relay.tvmc"]
    commands = (
        [*tvmc, "compile", "--target=vnpu -npu=vnpu-64, llvm", str(MODEL), "-o", str(package)],
        [*tvmc, "run", "--inputs", str(tmp_path / "feeds.npz"), "-o", str(result), str(package)],
    )
    for command in commands:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with exact():
        (expected,) = run(partition_for_vnpu(from_onnx(load_onnx(MODEL))), feeds)
    with np.load(result) as data:
        np.testing.assert_array_equal(data["output_0"], expected)
