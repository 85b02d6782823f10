"""Run the `vnpu` command in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tvm_vnpu.cli import main


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return stdout as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Command:
    """Calls `vnpu` with captured output."""

    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path) -> Result:
        """Run the command and return what it printed."""
        self.capture.readouterr()
        code = main([str(argument) for argument in arguments])
        return Result(code, *self.capture.readouterr())

    def ok(self, *arguments: str | Path) -> Result:
        """Run a command that has to succeed."""
        result = self(*arguments)
        assert (result.code, result.err) == (0, "")
        return result

    def error(self, *arguments: str | Path) -> str:
        """Run a command that has to fail as the user's error; return its one line."""
        result = self(*arguments)
        assert (result.code, result.out) == (2, "")
        lines = result.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("vnpu: error: "), result.err
        return lines[0].removeprefix("vnpu: error: ")
