"""What is not the user's fault: internal errors, interruption, a closed pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import Command


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Make `disasm` raise the exception that the test asks for."""

    def fail(folder: object) -> None:
        raise request.param

    monkeypatch.setattr("tvm_vnpu.artifact.load.load_artifact", fail)


@pytest.mark.parametrize("failing", [ZeroDivisionError("one\ntwo")], indirect=True)
def test_an_internal_error_is_one_line_with_a_hint(vnpu: Command, failing: None) -> None:
    result = vnpu("disasm", "dir")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "vnpu: internal error: ZeroDivisionError: one two; run again with -v for the traceback\n"
    )
    shown = vnpu("disasm", "dir", "-v")
    assert shown.code == 1 and shown.err.startswith("Traceback")
    assert shown.err.endswith("vnpu: internal error: ZeroDivisionError: one two\n")


@pytest.mark.parametrize("failing", [KeyboardInterrupt()], indirect=True)
def test_interruption(vnpu: Command, failing: None) -> None:
    result = vnpu("disasm", "dir")
    assert (result.code, result.out, result.err) == (130, "", "vnpu: interrupted\n")


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    command = [sys.executable, "-m", "tvm_vnpu", "disasm", str(folder / "dir")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def _outcome(folder: Path, redirection: str) -> tuple[int, str]:
    command = f'exec "{sys.executable}" -m tvm_vnpu disasm "{folder / "dir"}" {redirection}'
    result = subprocess.run(
        ["sh", "-c", command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    return result.returncode, result.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_behind_stdout(folder: Path) -> None:
    assert _outcome(folder, ">/dev/full") == (
        2,
        "vnpu: error: the result cannot be written to stdout: seen No space left on device\n",
    )
    assert _outcome(folder, "--region 99 2>/dev/full") == (2, "")


def test_closed_streams(folder: Path) -> None:
    assert _outcome(folder, ">&-") == (
        2,
        "vnpu: error: the result cannot be written to stdout: seen it is closed\n",
    )
    assert _outcome(folder, "2>&-") == (0, "")
    assert _outcome(folder, "--region 99 2>&-") == (2, "")


def test_a_compiler_with_options_links_the_model_too(folder: Path, tmp_path: Path) -> None:
    """TVM reads CC as one name; a fresh process shows that it never gets to."""
    out = tmp_path / "out"
    arguments = [str(folder / "model.onnx"), "-o", str(out), "--calib", str(folder / "data.npz")]
    command = [sys.executable, "-m", "tvm_vnpu", "compile", *arguments]
    environment = {**os.environ, "CC": "cc -g0"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert (out / "model.so").exists()
