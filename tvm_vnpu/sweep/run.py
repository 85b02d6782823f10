"""Run a sweep: the rows in parallel processes, in the order of the product."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from codegen.profiles import profile as find_profile
from runtime_sim import npu as configurations
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.artifact.progress import Progress, silent
from tvm_vnpu.sweep.measure import Subject, measure, model_of
from tvm_vnpu.sweep.result import Row, Sweep
from tvm_vnpu.sweep.settings import Settings, Value, combinations, field_name, value_text
from tvm_vnpu.worker_processes import cores, new_pool

DIED = "the process that measured it died: out of memory?"


def sweep(
    model: str | os.PathLike[str],
    settings: Mapping[str, Sequence[Value]],
    *,
    npu: str | NpuConfig = "vnpu-256",
    shapes: Mapping[str, Sequence[int]] | None = None,
    rounding: str | None = None,
    jobs: int | None = None,
    progress: Progress = silent,
) -> Sweep:
    """Return what one inference of a model file costs on every combination of settings.

    `settings`: values by field, as `parse_settings` returns them, set on the base `npu`. A float
    model gets placeholder ranges: cycles do not depend on values. `jobs` worker processes (default:
    one for each core) start afresh, so a script calls this under `if __name__ == "__main__":`; 1
    runs all in this process. A combination that does not work is a row with its reason. Raises
    VnpuError for an unknown field, and for a model, a base or a profile that cannot be used.
    """
    base = configurations.load(npu)
    if rounding is not None:
        find_profile(rounding)
    if jobs is not None and jobs < 1:
        raise VnpuError("a sweep needs a process", seen=f"{jobs} jobs", limit="at least 1")
    swept = {field_name(name): tuple(values) for name, values in settings.items()}
    pinned = tuple((name, tuple(shape)) for name, shape in (shapes or {}).items())
    subject = Subject(Path(model).absolute(), pinned, rounding, base)
    imported = model_of(subject.path, pinned)
    points = list(combinations(swept))
    count = min(jobs or cores(), len(points))
    run = _here if count <= 1 else _in_processes
    rows = run(subject, points, count, progress)
    return Sweep(
        model=imported.path.name,
        npu=base.name,
        calibrated=imported.quantized,
        swept=tuple(swept),
        rows=tuple(rows),
    )


def _here(
    subject: Subject, points: Sequence[Settings], count: int, progress: Progress
) -> list[Row]:
    del count
    rows = []
    for done, point in enumerate(points):
        progress("sweep", done, len(points))
        rows.append(measure(subject, point))
    progress("sweep", len(points), len(points))
    return rows


def _in_processes(
    subject: Subject, points: Sequence[Settings], count: int, progress: Progress
) -> list[Row]:
    """Measure all points; those that a dying process took along are tried again one by one."""
    progress("sweep", 0, len(points))
    rows: dict[int, Row] = {}
    _measure_all(subject, dict(enumerate(points)), count, rows, progress, len(points))
    lost = [index for index in range(len(points)) if index not in rows]
    for index in lost:
        _measure_all(subject, {index: points[index]}, 1, rows, progress, len(points))
    if not rows:
        raise VnpuError(
            "no worker process of the sweep survived",
            fix='call sweep under `if __name__ == "__main__":`, or use jobs=1',
        )
    return [rows.get(index) or _died(point) for index, point in enumerate(points)]


def _died(point: Settings) -> Row:
    return Row({name: value_text(value) for name, value in point.items()}, "", None, DIED)


def _measure_all(
    subject: Subject,
    points: Mapping[int, Settings],
    count: int,
    rows: dict[int, Row],
    progress: Progress,
    total: int,
) -> None:
    """Measure points in `count` new processes and add their rows; a dying process ends it.

    It takes along what other processes were measuring, and may do so before any row is there.
    """
    pool = new_pool(count)
    try:
        futures = {pool.submit(measure, subject, point): i for i, point in points.items()}
        for future in as_completed(futures):
            rows[futures[future]] = future.result()
            progress("sweep", len(rows), total)
    except BrokenProcessPool:
        return
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
