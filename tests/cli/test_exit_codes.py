"""What is not the user's fault: internal errors, interruption, a closed pipe."""

from __future__ import annotations

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
