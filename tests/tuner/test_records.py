"""Tuning logs: whole lines, whatever is skipped is named, and other ISA versions are refused."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codegen.schedule import Schedule
from tvm_vnpu.tuner.records import CHECK, Log, LogError, Record, merge_logs, parse_line, read_log
from tvm_vnpu.tuner.task import TaskKey

KEY = TaskKey(1, "c0de", "0123456789abcdef", "conv2d-0011223344556677")
TRIAL = Record(
    "trial", KEY, "vnpu-256", "conv2d 8x8x4 int8 -> 8x8x4 int8", "xgb", 0, 3,
    Schedule(tile_h=8, unroll=2), 1234, "", (1.5, 2.0),
)  # fmt: skip
RECORDS = [
    TRIAL,
    replace(TRIAL, trial=4, cycles=None, error="it failed: seen 1; limit 2"),
    replace(TRIAL, event=CHECK, features=()),
]


def _write(path: Path, *lines: str) -> Path:
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _line(**changes: Any) -> str:
    table = json.loads(TRIAL.to_line()) | changes
    return json.dumps({name: value for name, value in table.items() if value is not ...}) + "\n"


def test_records_survive_the_log(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        for record in RECORDS:
            log.append(record)
    assert read_log(tmp_path / "log") == RECORDS
    assert len((tmp_path / "log").read_text().splitlines()) == 3


def test_the_schema_is_what_the_documentation_says(repository: Path) -> None:
    page = (repository / "docs" / "tuning.md").read_text(encoding="utf-8")
    for name in json.loads(TRIAL.to_line()):
        assert f"| `{name}` |" in page


def test_a_line_that_was_cut_short_is_skipped_and_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _write(tmp_path / "log", _line(), _line()[:100])
    with Log(path) as log:
        log.append(RECORDS[1])
    with caplog.at_level(logging.WARNING):
        assert read_log(path) == [TRIAL, RECORDS[1]]
    assert caplog.messages == [f"{path}:2: skipped: it is not JSON (cut short?)"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1, 2]\n", "it is no tuning record"),
        ('{"input": ["llvm"], "version": 0.2}\n', "it is no tuning record"),
        (_line(schema=2), "its schema is 2, not 1"),
        (_line(cycles="12"), "cycles is missing or of the wrong type"),
        (_line(cycles=True), "cycles is missing or of the wrong type"),
        (_line(tuner=...), "tuner is missing or of the wrong type"),
        (_line(event="guess"), "its event is 'guess'"),
        (_line(features=["a"]), "features are not finite numbers"),
        (_line(features=[float("inf")]), "features are not finite numbers"),
        (_line(features=[10**400]), "features are not finite numbers"),
        (_line(cycles=0), "its cycles is 0, not 1 to"),
        (_line(cycles=-5), "its cycles is -5, not 1 to"),
        (_line(cycles=10**400), "its cycles is 10000000000000000000, not 1 to"),
        (_line(trial=10**18), "its trial is 1000000000000000000, not 0 to 100000"),
        (_line(seed=-1), "its seed is -1, not 0 to"),
        (_line(schedule={"tile_z": 1}), "unknown knob in a schedule: seen tile_z; limit one of"),
        ("\udcff\n", "it is not UTF-8"),
        ("[" * 100_000 + "\n", "it is not JSON (cut short?)"),
    ],
)
def test_a_foreign_line_is_skipped(
    line: str, reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    path.write_bytes(f"{line}{_line()}".encode("utf-8", "surrogateescape"))
    assert read_log(path) == [TRIAL]
    (message,) = caplog.messages
    assert message.startswith(f"{path}:1: skipped: {reason}")


def test_a_flood_of_foreign_lines_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _write(tmp_path / "log", "?\n" * 25, _line())
    assert read_log(path) == [TRIAL]
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == f"{path}: 15 more lines skipped"


def test_a_file_without_any_record_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "model.toml", "[npu]\n", "rows = 3\n")
    with pytest.raises(LogError) as caught:
        read_log(path)
    assert str(caught.value) == (
        f"{path} is no tuning log: seen 2 lines, none of them a record; name another file"
    )
    cut = _write(tmp_path / "log", _line()[:40])
    assert read_log(cut) == []


def test_a_byte_order_mark_is_no_part_of_a_record(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(_line(), encoding="utf-8-sig")
    assert read_log(path) == [TRIAL]


def test_another_isa_version_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = _line(isa=0, schedule={"a_knob_of_old": 1})
    path = _write(tmp_path / "log", other, other)
    with pytest.raises(LogError) as caught:
        read_log(path)
    assert str(caught.value) == (
        f"the tuning log {path} is of another ISA version: seen 0; limit ISA version 1; "
        "tune again, into another file"
    )
    mixed = _write(tmp_path / "mixed", other, _line())
    assert read_log(mixed) == [TRIAL]
    assert caplog.messages == [f"{mixed}:1: skipped: ISA version 0, not 1"]


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path / "no" / "log", "No such file or directory"),
        (_folder, "Is a directory"),
    ],
)
def test_a_log_that_cannot_be_written(
    make: Callable[[Path], Path], reason: str, tmp_path: Path
) -> None:
    path = make(tmp_path / "log")
    with pytest.raises(LogError) as caught:
        Log(path)
    assert str(caught.value) == (
        f"the tuning log cannot be written: seen {path}: {reason}; name another file"
    )


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LogError) as caught:
        read_log(tmp_path / "none")
    seen = f"{tmp_path / 'none'}: No such file or directory"
    assert str(caught.value) == f"the tuning log cannot be read: seen {seen}"


def test_a_full_disk_is_one_line() -> None:
    with Log("/dev/full") as log, pytest.raises(LogError) as caught:
        log.append(TRIAL)
    assert "seen /dev/full: No space left on device" in str(caught.value)


def test_many_writers_never_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"

    def write(seed: int) -> None:
        with Log(path) as log:
            for trial in range(50):
                log.append(replace(TRIAL, seed=seed, trial=trial))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(r.seed, r.trial) for r in read_log(path)} == {
        (seed, trial) for seed in range(4) for trial in range(50)
    }


def test_merging_keeps_each_record_once(tmp_path: Path) -> None:
    one = _write(tmp_path / "one", _line(), _line(trial=4))
    two = _write(tmp_path / "two", _line(trial=4), _line(trial=5))
    assert merge_logs([one, two], one) == 3
    assert [record.trial for record in read_log(one)] == [3, 4, 5]


def test_a_line_says_everything() -> None:
    for record in RECORDS:
        assert parse_line(record.to_line()) == record
