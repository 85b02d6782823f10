"""SIGKILL at any point: the log loses at most one line, and the resumed run ends the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tuner.run import tuned
from tvm_vnpu.tuner import Tuned, read_log


def _kill_after(log: Path, lines: int, repository: Path) -> None:
    """Start the run and kill it once its log has some lines, a moment later."""
    command = [sys.executable, "-m", "tests.tuner.run", str(log)]
    with subprocess.Popen(command, cwd=repository) as process:
        while process.poll() is None:
            if log.exists() and log.read_bytes().count(b"\n") >= lines:
                time.sleep(random.Random(lines).random() * 0.05)
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        assert process.wait() == -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Whole:
    """A run that nobody disturbed."""

    log: Path
    tuned: Tuned


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    log = tmp_path_factory.mktemp("whole") / "log"
    return Whole(log, tuned(str(log)))


@pytest.mark.parametrize("lines", [1, 9, 16])
def test_a_killed_run_goes_on_where_it_was(
    lines: int, whole: Whole, tmp_path: Path, repository: Path
) -> None:
    log = tmp_path / "log"
    _kill_after(log, lines, repository)
    kept = log.read_bytes()
    assert kept.count(b"\n") >= lines
    before = set(read_log(log))
    assert before <= set(read_log(whole.log))
    resumed = tuned(str(log))
    assert [(r.cycles, r.schedule) for r in resumed.results] == [
        (r.cycles, r.schedule) for r in whole.tuned.results
    ]
    assert set(read_log(log)) == set(read_log(whole.log))
    known = {(r.key, r.schedule) for r in before if r.event == "trial"}
    assert resumed.measured == whole.tuned.measured - len(known)


def test_a_line_cut_short_is_measured_again(whole: Whole, tmp_path: Path) -> None:
    log, content = tmp_path / "log", whole.log.read_bytes()
    for cut in (30, len(content) // 2, len(content) - 7):
        log.write_bytes(content[:cut])
        assert tuned(str(log)).cycles == whole.tuned.cycles
        assert set(read_log(log)) == set(read_log(whole.log))
