"""The set-up shared by scripts/demo and scripts/test: what it installs, when, and how it fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source import ROOT

# A Python that notes a pip call instead of running it.
_FAKE_PYTHON = f"""#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then echo "$*" >> pip.log; else exec {sys.executable} "$@"; fi
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the scripts, a project file and a virtual environment that fakes pip."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(_FAKE_PYTHON)
    python.chmod(0o755)
    return tmp_path


def _shell(checkout: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euc", f"source scripts/lib.sh; {code}"],
        cwd=checkout,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def _installations(checkout: Path) -> int:
    return (checkout / "pip.log").read_text().count("--editable .[relax,test]")


def test_a_second_run_installs_nothing(checkout: Path) -> None:
    for _ in range(2):
        assert _shell(checkout, "install_project relax test").returncode == 0
    assert _installations(checkout) == 1


def test_a_changed_project_file_installs_again(checkout: Path) -> None:
    _shell(checkout, "install_project relax test")
    with (checkout / "pyproject.toml").open("a") as project:
        project.write("# changed\n")
    _shell(checkout, "install_project relax test")
    assert _installations(checkout) == 2


def test_an_unfit_python_is_named(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    result = _shell(checkout, "install_project relax", PYTHON="/bin/false")
    assert result.returncode == 2
    assert result.stderr == (
        "error: PYTHON=/bin/false is not a Python 3.10 to 3.13 with the venv module; name another\n"
    )


def test_a_missing_c_compiler_is_named(checkout: Path) -> None:
    result = _shell(checkout, "require_c_compiler", CC="/nowhere/cc")
    assert result.returncode == 2
    assert result.stderr == (
        "error: no C compiler found (looked for: /nowhere/cc); install one "
        "(Debian: apt-get install gcc libc6-dev) or set CC=/path/to/compiler\n"
    )
