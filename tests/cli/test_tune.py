"""vnpu tune: search, go on, apply, merge, best, plot; what is wrong is one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.artifact.models import classifier, write
from tests.cli.command import Command
from tvm_vnpu.tuner import read_log


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("tune"), classifier())


@pytest.fixture(scope="module")
def log(model: Path) -> Path:
    """Return the log of a run with the tuner `ga`."""
    from tvm_vnpu.cli import main

    path = model.parent / "log.jsonl"
    arguments = ["tune", str(model), "-o", str(path), "--trials", "6", "--tuner", "ga", "--jobs=1"]
    assert main(arguments) == 0
    return path


def test_a_run_is_a_table_and_a_log(vnpu: Command, model: Path, tmp_path: Path) -> None:
    result = vnpu("tune", model, "-o", tmp_path / "log", "--trials", "4", "--jobs", "1")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split()[:2] == ["operator", "times"]
    assert lines[-1] == f"log: {tmp_path / 'log'}"
    assert {record.tuner for record in read_log(tmp_path / "log")} == {"xgb"}


def test_the_same_command_goes_on(vnpu: Command, model: Path, log: Path) -> None:
    before = log.read_text()
    arguments = ("tune", model, "-o", log, "--trials", 6, "--tuner", "ga", "--jobs", 1, "--json")
    result = vnpu(*map(str, arguments))
    assert result.json["measured"] == 0 and log.read_text() == before
    assert [task["checked"] for task in result.json["tasks"]] == [True] * 3
    assert result.json["cycles"] <= result.json["default_cycles"]


def test_compiling_with_a_log_uses_its_best(
    vnpu: Command, model: Path, log: Path, folder: Path, tmp_path: Path
) -> None:
    arguments = ("compile", model, "--calib", folder / "inputs.npz", "-o", tmp_path / "dir")
    vnpu.ok(*arguments, "--tune-log", log)
    tuned = vnpu.ok("profile", tmp_path / "dir", "--json").json
    best = vnpu.ok("tune", "--best", log, "--json").json
    assert tuned["cycles"] == sum(entry["cycles"] for entry in best)
    meta = json.loads((tmp_path / "dir" / "meta.json").read_text())
    layers = [layer for region in meta["regions"] for layer in region["layers"]]
    assert len(layers) == len(best)
    assert vnpu.ok("run", tmp_path / "dir", "--input", folder / "inputs.npz").code == 0


def test_a_log_of_another_configuration_changes_nothing(
    vnpu: Command, model: Path, log: Path, folder: Path, tmp_path: Path
) -> None:
    arguments = ("compile", model, "--calib", folder / "inputs.npz", "--npu", "vnpu-64")
    vnpu.ok(*arguments, "-o", tmp_path / "plain")
    result = vnpu(*arguments, "-o", tmp_path / "tuned", "--tune-log", log)
    assert result.code == 0
    assert result.err == (
        "tvm_vnpu.tuner.history: region0: the tuning log has no schedule for any operator on "
        "vnpu-64\n"
    )
    streams = [(tmp_path / name / "regions" / "region0.bin").read_bytes()
               for name in ("plain", "tuned")]  # fmt: skip
    assert streams[0] == streams[1]


def test_logs_are_merged_and_cut_down(vnpu: Command, log: Path, tmp_path: Path) -> None:
    count = len(read_log(log))
    result = vnpu.ok("tune", "--merge", log, log, "-o", tmp_path / "all")
    assert result.out == f"{count} records of 2 logs written to {tmp_path / 'all'}\n"
    assert (tmp_path / "all").read_text() == log.read_text()
    vnpu.ok("tune", "--best", log, "-o", tmp_path / "best")
    assert len(read_log(tmp_path / "best")) < count
    full, cut = (
        vnpu.ok("tune", "--best", path, "--json").json for path in (log, tmp_path / "best")
    )
    assert [entry["schedule"] for entry in full] == [entry["schedule"] for entry in cut]


def test_a_log_is_drawn(vnpu: Command, log: Path, tmp_path: Path) -> None:
    vnpu.ok("tune", "--plot", log, "-o", tmp_path / "log.svg")
    assert ET.parse(tmp_path / "log.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--tuner", "anneal"], "unknown tuner 'anneal': limit one of xgb, ga, random, grid; "
                                "name one of them"),
        (["--trials", "0"], "trials must be 1 to 100,000: seen 0"),
        (["--batch", "100001"], "batch must be 1 to 100,000: seen 100001"),
        (["--jobs", "0"], "tuning needs a process: seen 0 jobs; limit 1 to 1024"),
        (["--jobs", "9" * 20], f"tuning needs a process: seen {'9' * 20} jobs; limit 1 to 1024"),
        (["--scheduler", "local", "--jobs", "-1"],
         "tuning needs a process: seen -1 jobs; limit 1 to 1024"),
        (["--npu", "vnpu-1"], "unknown NPU 'vnpu-1': limit one of vnpu-1024, vnpu-256, "
                              "vnpu-256-lowbw, vnpu-4096, vnpu-64; name a preset or a .toml file"),
        (["--scheduler", "nowhere"], "the Dask scheduler cannot be reached: seen nowhere; limit an "
                                     "address like tcp://HOST:8786; start one with `dask "
                                     "scheduler`"),
        (["--transfer", "none"], "the tuning log cannot be read: seen none: No such file or "
                                 "directory"),
        (["--best", "none"], "vnpu tune takes a MODEL, or one of --merge, --best and --plot: see "
                             "`vnpu tune --help`"),
    ],
)  # fmt: skip
def test_wrong_arguments(
    vnpu: Command, model: Path, tmp_path: Path, arguments: list[str], line: str
) -> None:
    assert vnpu.error("tune", model, "-o", tmp_path / "log", *arguments) == line


def test_a_log_that_cannot_be_written(vnpu: Command, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "no" / "log"
    assert vnpu.error("tune", model, "-o", path) == (
        f"the tuning log cannot be written: seen {path}: No such file or directory; "
        "name another file"
    )
    assert vnpu.error("tune", model) == "-o is missing: name the file to write"
    assert vnpu.error("tune").startswith("vnpu tune takes a MODEL")


def test_no_other_file_becomes_a_log(vnpu: Command, model: Path, tmp_path: Path) -> None:
    before = model.read_bytes()
    assert vnpu.error("tune", model, "-o", model).startswith(f"{model} is no tuning log: seen ")
    assert model.read_bytes() == before
    none = tmp_path / "none.onnx"
    assert vnpu.error("tune", none, "-o", tmp_path / "new") == f"no such model file: seen {none}"
    assert not (tmp_path / "new").exists()


def test_a_plot_does_not_replace_its_log(vnpu: Command, log: Path, tmp_path: Path) -> None:
    before = log.read_text()
    line = f"the plot would replace the log: seen {log}; name another file"
    assert vnpu.error("tune", "--plot", log, "-o", log) == line
    assert log.read_text() == before
    empty = tmp_path / "empty"
    empty.touch()
    assert vnpu.error("tune", "--best", empty) == f"the tuning log has no trials: seen {empty}"


def test_cycles_that_are_not_those_of_the_schedule_are_found(
    vnpu: Command, model: Path, log: Path, tmp_path: Path
) -> None:
    records = [json.loads(line) for line in log.read_text().splitlines()]
    trials = [record for record in records if record["event"] == "trial"]
    default = trials[0]
    mine = [record for record in trials if record["operator"] == default["operator"]]
    other = next(record for record in mine if record["schedule"] != default["schedule"])
    path, arguments = tmp_path / "log", ("--trials", "6", "--tuner", "ga", "--jobs=1")

    def forge(wrong: dict[str, object]) -> None:
        same = ("operator", "schedule")
        lines = (
            json.dumps(r | {"cycles": 1} if all(r[k] == wrong[k] for k in same) else r)
            for r in trials
        )
        path.write_text("\n".join(lines) + "\n")

    forge(default)
    error = vnpu.error("tune", model, "-o", path, *arguments)
    assert f"the log has 1 cycles for a schedule that takes {default['cycles']:,}" in error
    forge(other)
    found = vnpu("tune", model, "-o", path, *arguments, "--json").json
    assert all(task["cycles"] > 1 for task in found["tasks"])
    assert any("the log has 1 cycles" in fault for t in found["tasks"] for fault in t["faults"])


def test_a_log_of_another_isa_version(
    vnpu: Command, model: Path, log: Path, tmp_path: Path
) -> None:
    path = tmp_path / "old"
    path.write_text(log.read_text().replace('"isa":1', '"isa":7'))
    line = (
        f"the tuning log {path} is of another ISA version: seen 7; limit ISA version 1; "
        "tune again, into another file"
    )
    assert vnpu.error("tune", model, "-o", path) == line
    assert vnpu.error("tune", "--best", path) == line
    assert vnpu.error("compile", model, "-o", tmp_path / "dir", "--tune-log", path) == line


def _heed_interrupts() -> None:
    """Undo what a shell does to its background jobs, this test among them: they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_keeps_everything(model: Path, tmp_path: Path, repository: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "tvm_vnpu", "tune", str(model), "-o", str(log),
               "--trials", "100000", "--tuner", "random", "--jobs", "2"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=repository, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, preexec_fn=_heed_interrupts,
    ) as process:  # fmt: skip
        while not log.exists() or log.read_bytes().count(b"\n") < 40:
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    last = err.splitlines()[-1]
    assert last.startswith("vnpu: interrupted after ")
    assert last.endswith(f" trials; {log} keeps them, and the same command goes on")
    assert "times as fast" in out and len(read_log(log)) >= 40
