"""Tuning logs: one JSON object a line, appended atomically. The schema is in docs/tuning.md."""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codegen.schedule import Schedule
from runtime_sim.errors import VnpuError
from runtime_sim.isa.table import ISA_VERSION
from tvm_vnpu.report.output_file import output_file
from tvm_vnpu.tuner.defaults import MAX_TRIALS
from tvm_vnpu.tuner.task import TaskKey

_log = logging.getLogger(__name__)

SCHEMA = 1
TRIAL, CHECK = "trial", "check"
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "event": str, "isa": int, "code": str, "npu": str, "operator": str, "npu_name": str,
    "workload": str, "tuner": str, "seed": int, "trial": int, "schedule": dict,
    "cycles": (int, type(None)), "error": str, "features": list,
}  # fmt: skip
_PLAIN = ("event", "npu_name", "workload", "tuner", "seed", "trial", "cycles", "error")
_RANGES: Mapping[str, int] = {"trial": MAX_TRIALS, "seed": 1 << 63, "cycles": 1 << 62}
"""The largest value of numbers that are not negative; cycles are at least 1."""
_MAX_NAMED = 10
_BOM = b"\xef\xbb\xbf"

PathLike = str | os.PathLike[str]


class LogError(VnpuError):
    """A tuning log that cannot be read, written or used here."""


@dataclass(frozen=True, slots=True)
class Record:
    """A measurement (`event` = "trial"), or the verdict on a winner ("check").

    `trial` counts from 1 within one task, tuner and seed; 0 is the default schedule. `cycles` is
    None where measuring failed, and `error` says why; the error of a check is why it failed.
    `features` are those of `codegen.measure.FEATURES`, six digits each; a check has none.
    """

    event: str
    key: TaskKey
    npu_name: str
    workload: str
    tuner: str
    seed: int
    trial: int
    schedule: Schedule
    cycles: int | None
    error: str = ""
    features: tuple[float, ...] = ()

    def to_line(self) -> str:
        """Return the record as one line of JSON, without its end."""
        table: dict[str, Any] = {"schema": SCHEMA, "event": self.event, **asdict(self.key)}
        table |= {"npu_name": self.npu_name, "workload": self.workload, "tuner": self.tuner}
        table |= {"seed": self.seed, "trial": self.trial, "schedule": self.schedule.to_dict()}
        table |= {"cycles": self.cycles, "error": self.error, "features": self.features}
        return json.dumps(table, separators=(",", ":"))

    def rank(self) -> tuple[int, int, str, int]:
        """Return what orders measured trials: cycles, then whichever was tried first."""
        assert self.cycles is not None
        return self.cycles, self.trial, self.tuner, self.seed


class _Foreign(Exception):
    """A line that is no record; its text says why."""


class _OtherIsa(Exception):
    """A record of another ISA version."""


def parse_line(text: str) -> Record:
    """Return the record of a line. Raises _Foreign, or _OtherIsa for one of another ISA."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise _Foreign("it is not JSON (cut short?)") from None
    if not isinstance(table, dict) or "schema" not in table:
        raise _Foreign("it is no tuning record")
    if table["schema"] != SCHEMA:
        raise _Foreign(f"its schema is {table['schema']!r}, not {SCHEMA}")
    for name, kind in _TYPES.items():
        value = table.get(name, ...)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise _Foreign(f"{name} is missing or of the wrong type")
    for name, most in _RANGES.items():
        value, least = table[name], int(name == "cycles")
        if value is not None and not least <= value <= most:
            raise _Foreign(f"its {name} is {str(value)[:20]}, not {least} to {most}")
    if table["isa"] != ISA_VERSION:
        raise _OtherIsa(str(table["isa"]))
    if table["event"] not in (TRIAL, CHECK):
        raise _Foreign(f"its event is {table['event']!r}")
    try:
        schedule = Schedule.from_dict(table["schedule"])
    except (VnpuError, TypeError, ValueError) as error:
        raise _Foreign(str(error)) from None
    key = TaskKey(*(table[name] for name in ("isa", "code", "npu", "operator")))
    rest = {name: table[name] for name in _PLAIN}
    return Record(key=key, schedule=schedule, features=_numbers(table["features"]), **rest)


def _numbers(values: list[Any]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values if type(value) in (int, float))
    except OverflowError:
        numbers = ()
    if len(numbers) != len(values) or not all(map(math.isfinite, numbers)):
        raise _Foreign("features are not finite numbers")
    return numbers


def read_log(path: PathLike, *, warn: bool = True) -> list[Record]:
    """Return the records of a log in order.

    A line that is cut short or foreign, and a record of another ISA version, is skipped and named
    by a warning if `warn`. Raises LogError for a file that cannot be read or is no log at all, and
    where all records are of another ISA version.
    """
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        raise LogError(
            "the tuning log cannot be read", seen=f"{os.fspath(path)}: {_reason(error)}"
        ) from error
    skipped: list[str] = []
    others: Counter[str] = Counter()
    records = list(_records(content, os.fspath(path), skipped, others))
    if others and not records:
        raise LogError(
            f"the tuning log {os.fspath(path)} is of another ISA version",
            seen=", ".join(sorted(others)),
            limit=f"ISA version {ISA_VERSION}",
            fix="tune again, into another file",
        )
    if skipped and not records and b'{"schema"' not in content:
        raise LogError(
            f"{os.fspath(path)} is no tuning log",
            seen=f"{len(skipped)} lines, none of them a record",
            fix="name another file",
        )
    if warn:
        _warn(os.fspath(path), skipped)
    return records


def _warn(path: str, skipped: Sequence[str]) -> None:
    for line in skipped[:_MAX_NAMED]:
        _log.warning("%s", line)
    if len(skipped) > _MAX_NAMED:
        _log.warning("%s: %d more lines skipped", path, len(skipped) - _MAX_NAMED)


def _records(
    content: bytes, path: str, skipped: list[str], others: Counter[str]
) -> Iterator[Record]:
    for number, raw in enumerate(content.removeprefix(_BOM).split(b"\n"), 1):
        if not raw.strip():
            continue
        try:
            yield parse_line(raw.decode("utf-8"))
        except UnicodeDecodeError:
            skipped.append(f"{path}:{number}: skipped: it is not UTF-8")
        except _Foreign as reason:
            skipped.append(f"{path}:{number}: skipped: {reason}")
        except _OtherIsa as version:
            others[str(version)] += 1
            skipped.append(f"{path}:{number}: skipped: ISA version {version}, not {ISA_VERSION}")


class Log:
    """Appends records to a file; several processes may append to one."""

    def __init__(self, path: PathLike) -> None:
        """Open the file, made if need be. Raises LogError where it cannot be written."""
        self.path = os.fspath(path)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except (OSError, ValueError) as error:
            raise self._refused(error) from error

    def __enter__(self) -> Log:
        """Return the log itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def append(self, record: Record) -> None:
        """Append one line in a single write. Raises LogError where the disk refuses.

        A line that an earlier process left unfinished is ended first.
        """
        line = record.to_line().encode() + b"\n"
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                line = self._line_end() + line
                written = os.write(self._descriptor, line)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        except OSError as error:
            raise self._refused(error) from error
        if written != len(line):
            raise self._refused(OSError("the disk is full"))

    def _line_end(self) -> bytes:
        size = os.fstat(self._descriptor).st_size
        last = os.pread(self._descriptor, 1, size - 1) if size else b"\n"
        return b"" if last in (b"\n", b"") else b"\n"

    def _refused(self, error: Exception) -> LogError:
        return LogError(
            "the tuning log cannot be written",
            seen=f"{self.path}: {_reason(error)}",
            fix="name another file",
        )


def merge_logs(paths: Sequence[PathLike], out: PathLike) -> int:
    """Write the records of logs, each once, to `out` and return how many there are.

    Raises LogError and OutputError as `read_log` and `output_file`.
    """
    records = dict.fromkeys(record for path in paths for record in read_log(path))
    write_log(records, out)
    return len(records)


def write_log(records: Iterable[Record], out: PathLike) -> None:
    """Write a whole log or nothing. Raises OutputError."""
    with output_file(out, "the tuning log") as stream:
        stream.writelines(f"{record.to_line()}\n" for record in records)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
