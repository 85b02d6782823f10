"""Traces: legal trace events, in order, not overlapping, equal to the timeline."""

from __future__ import annotations

import io
import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime_sim import npu, timing
from tests.artifact.models import classifier, write
from tests.relax.onnx_models import make_model, random_values
from tvm_vnpu.artifact.prepare import inference_of, read_model
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import make_profile
from tvm_vnpu.report.output_file import OutputError, output_file
from tvm_vnpu.report.trace import TRACKS, trace_events, write_trace

Event = dict[str, Any]
_SLACK_US = 1e-9
_NUMBERS = (int, float)


def format_errors(events: Sequence[Event]) -> list[str]:
    """Name what breaks the trace-event format, or the rules that this project adds to it."""
    problems, ends = [], defaultdict(float)
    starts: dict[int, float] = defaultdict(float)
    for index, event in enumerate(events):
        where = f"event {index}"
        if event.get("ph") not in ("X", "M") or not isinstance(event.get("name"), str):
            problems.append(f"{where}: neither a complete event nor metadata with a name")
        if not all(isinstance(event.get(key), int) for key in ("pid", "tid")):
            problems.append(f"{where}: no process or track")
        if event.get("ph") != "X":
            continue
        if not all(isinstance(event.get(key), _NUMBERS) for key in ("ts", "dur")):
            problems.append(f"{where}: no time")
        elif event["dur"] < 0 or event["ts"] < starts[event["tid"]]:
            problems.append(f"{where}: not in order")
        elif event["ts"] < ends[event["tid"]] - _SLACK_US:
            problems.append(f"{where}: overlaps the one before")
        else:
            starts[event["tid"]] = event["ts"]
            ends[event["tid"]] = event["ts"] + event["dur"]
    return problems


GOOD = {"ph": "X", "name": "a", "pid": 1, "tid": 2, "ts": 1.0, "dur": 2.0}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ph": "B"}, "neither a complete event nor metadata with a name"),
        ({"name": 3}, "neither a complete event nor metadata with a name"),
        ({"tid": "MX"}, "no process or track"),
        ({"ts": None}, "no time"),
        ({"dur": -1}, "not in order"),
        ({"ts": 0.5}, "not in order"),
        ({"ts": 2.5}, "overlaps the one before"),
    ],
)
def test_a_wrong_event_is_found(change: Event, problem: str) -> None:
    assert format_errors([GOOD, {**GOOD, "ts": 3.0}]) == []
    assert format_errors([GOOD, {**GOOD, "ts": 3.0, **change}]) == [f"event 1: {problem}"]


@pytest.fixture(scope="module", params=[1000, 933])
def inference(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Inference:
    """Return one inference of the small classifier."""
    config = replace(npu.load("vnpu-256"), clock_mhz=request.param)
    model = write(tmp_path_factory.mktemp("trace"), classifier())
    return inference_of(read_model(model), config)


def _tracks(events: Sequence[Event]) -> dict[str, list[Event]]:
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    tracks: dict[str, list[Event]] = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] == "X":
            tracks[names[event["tid"]]].append(event)
    return tracks


def test_a_trace_keeps_the_format(inference: Inference) -> None:
    stream = io.StringIO()
    write_trace(stream, inference)
    trace = json.loads(stream.getvalue())
    assert trace["displayTimeUnit"] == "ns"
    assert trace["traceEvents"] == list(trace_events(inference))
    assert format_errors(trace["traceEvents"]) == []


def test_every_command_is_on_its_engines_track(inference: Inference) -> None:
    tracks = _tracks(list(trace_events(inference)))
    assert tuple(tracks) == TRACKS
    region = inference.regions[0]
    timeline = timing.simulate(region.words, inference.npu)
    commands = [e for queue in timing.ENGINES for e in tracks[queue.name]]
    assert sorted(e["args"]["command"] for e in commands) == [
        i for i in range(len(region.words)) if timeline.queue[i] < len(timing.ENGINES)
    ]
    for name, use in timeline.engines.items():
        events = [e for e in tracks[name] if name != "CTRL" or e["name"].startswith("issue ")]
        assert sum(e["args"]["cycles"] for e in events) == use.busy
    for event in commands:
        assert event["ts"] == pytest.approx(
            timeline.start[event["args"]["command"]] / inference.npu.clock_mhz, abs=1e-6
        )
    store = tracks["ST"][-1]["args"]
    assert (store["mnemonic"], store["layer"]) == ("STORE", "fc") and "dram=" in store["fields"]


def test_the_controllers_stalls_are_shown(inference: Inference) -> None:
    tracks = _tracks(list(trace_events(inference)))
    (use,) = [e for e in make_profile(inference).engines if e.name == "CTRL"]
    for cause, cycles in use.idle.items():
        if cause != "drain":
            assert cycles == sum(e["args"]["cycles"] for e in tracks["CTRL"] if e["name"] == cause)


def test_layers_are_those_of_the_profile(inference: Inference) -> None:
    shown = _tracks(list(trace_events(inference)))["layers"]
    profile = make_profile(inference)
    assert [(e["name"], e["args"]["cycles"]) for e in shown] == [
        (layer.name, layer.cycles) for layer in profile.layers
    ]


def test_regions_follow_each_other(tmp_path: Path) -> None:
    from onnx import helper

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
        helper.make_node("Sigmoid", ["a"], ["s"], name="gate"),
        helper.make_node("Conv", ["s", "w"], ["y"], name="second"),
    ]
    model = make_model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {"w": random_values(4, 4, 1, 1)})
    inference = inference_of(read_model(write(tmp_path, model)), npu.load("vnpu-256"))
    events = list(trace_events(inference))
    assert len(inference.regions) == 2 and format_errors(events) == []
    last = _tracks(events)["layers"][-1]
    end_us = make_profile(inference).cycles / inference.npu.clock_mhz
    assert last["ts"] + last["dur"] == pytest.approx(end_us)


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), output_file(target, "the trace") as stream:
        stream.write("half")
        raise ZeroDivisionError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("out.json", "old")]
    with output_file(target, "the trace") as stream:
        stream.write("new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("out.json", "new")]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("out.json")
    with output_file(tmp_path / "link.json", "the trace") as stream:
        stream.write("new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "out.json").read_text() == "new"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (".", "it is a folder"),
        ("/dev/null", "it is a device"),
        ("device", "it is a device"),
        ("fifo", "it is a device"),
        ("a" * 300, "File name too long"),
        ("none/out.json", "No such file or directory"),
        ("file/out.json", "Not a directory"),
    ],
)
def test_a_place_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "device").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OutputError) as caught, output_file(name, "the trace"):
        raise AssertionError("not reached")
    assert (
        str(caught.value) == f"the trace cannot be written: seen {name}: {why}; name another file"
    )


@pytest.mark.parametrize(
    ("name", "seen"),
    [("", "'': the name is empty"), ("a\0b", "'a\\x00b': embedded null byte")],
)
def test_a_name_that_no_file_can_have(name: str, seen: str) -> None:
    with pytest.raises(OutputError) as caught, output_file(name, "the trace"):
        raise AssertionError("not reached")
    assert str(caught.value) == f"the trace cannot be written: seen {seen}; name another file"
