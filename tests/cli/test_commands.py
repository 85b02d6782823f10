"""What each command prints and writes when all is well."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command
from tvm_vnpu.cli.console import Console
from tvm_vnpu.cli.entry import COMMANDS

LAYER = "first/Conv+first/Relu"


def test_compile_prints_a_summary(vnpu: Command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = vnpu.ok("compile", folder / "model.onnx", "--calib", folder / "data.npz", "-o", out)
    lines = dict(line.split("  ", 1) for line in result.out.splitlines())
    values = {name.strip(): value.strip() for name, value in lines.items()}
    assert values["model"] == "model.onnx (float)"
    assert values["NPU"] == "vnpu-256, rounding integer"
    assert values["inputs"] == "image: float32 (1, 1, 8, 8)"
    assert values["written to"] == str(out)
    assert vnpu.ok("profile", out, "--json").json["calibrated"] is True


def test_compile_as_json_is_the_table_of_the_folder(
    vnpu: Command, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = ("compile", folder / "model.onnx", "--calib", folder / "data.npz", "-o", out)
    assert vnpu.ok(*arguments, "--json").json == json.loads((out / "meta.json").read_text())


def test_run_writes_the_outputs(vnpu: Command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "y.npz"
    arguments = ("run", folder / "dir", "--input", folder / "inputs.npz", "--output", out)
    assert f"written to {out}" in vnpu.ok(*arguments).out
    with np.load(out) as outputs:
        assert list(outputs) == ["scores"] and outputs["scores"].shape == (6, 6)
        low = outputs["scores"].min()
    table = vnpu.ok(*arguments[:-2], "--json").json
    assert table["outputs"][0]["min"] == pytest.approx(float(low))


def test_eval_compares_with_the_float_model(vnpu: Command, folder: Path) -> None:
    arguments = ("eval", folder / "dir", "--validate", folder / "data.npz")
    table = vnpu.ok(*arguments, "--json").json
    assert table["samples"] == 6 and table["reference_kind"] == "float"
    assert table["reference"] == {"top1": 1.0, "top5": 1.0}
    assert table["npu"]["top1"] >= 5 / 6 and table["agreement"] >= 5 / 6
    text = vnpu.ok(*arguments).out
    assert "float model, CPU  100.00%  100.00%" in text
    assert "top-1 lost: " in text
    alone = vnpu.ok(*arguments, "--no-float")
    assert "float" not in alone.out
    assert vnpu.ok(*arguments, "--no-float", "--json").json["reference"] is None


def test_profile_names_layers_and_totals(vnpu: Command, folder: Path) -> None:
    text = vnpu.ok("profile", folder / "dir").out
    for word in ("first/Conv + Relu", "cycles", "inferences/s", "SPM peak", "arena", "constants"):
        assert word in text
    table = vnpu.ok("profile", folder / "dir", "--json").json
    assert [layer["name"] for layer in table["layers"]][0] == LAYER
    assert sum(layer["cycles"] for layer in table["layers"]) == table["cycles"]
    assert table["time_ms"] == pytest.approx(table["cycles"] / 1e6)


def test_profile_says_what_layers_waited_for(vnpu: Command, folder: Path) -> None:
    assert "busiest" not in vnpu.ok("profile", folder / "dir").out
    assert "busiest" in vnpu.ok("profile", folder / "dir", "--stalls").out
    layer = vnpu.ok("profile", folder / "dir", "--json").json["layers"][0]
    for engine in layer["engines"]:
        assert engine["busy"] + sum(engine["idle"].values()) == layer["cycles"]


@pytest.mark.parametrize("target", ["dir", "model.onnx"])
def test_profile_writes_a_trace(vnpu: Command, folder: Path, tmp_path: Path, target: str) -> None:
    trace = tmp_path / "trace.json"
    text = vnpu.ok("profile", folder / target, "--trace", trace).out
    assert text.endswith(f"\ntrace written to {trace}\n")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X"}
    assert vnpu.ok("profile", folder / target, "--trace", trace, "--json").json["cycles"] > 0


def test_a_model_is_profiled_without_calibration_or_compiler(
    vnpu: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    result = vnpu.ok("profile", folder / "model.onnx", "--npu", "vnpu-64")
    assert "NOT CALIBRATED: placeholder ranges; cycles hold, values do not." in result.out
    assert vnpu.ok("profile", folder / "model.onnx", "--json").json["calibrated"] is False


def test_explain_lists_operators(vnpu: Command, folder: Path) -> None:
    text = vnpu.ok("explain", folder / "model.onnx").out
    assert "first/Conv" in text and "on the NPU in 1 region, 0 on the CPU (0.0%)" in text
    assert (
        vnpu.ok("explain", folder / "dir", "--json").json
        == vnpu.ok("explain", folder / "model.onnx", "--json").json
    )


def test_sweep_writes_a_table(vnpu: Command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep.csv"
    arguments = (
        "sweep",
        folder / "model.onnx",
        "--set",
        "array=8x8,0x16",
        "--jobs",
        "1",
        "-o",
        out,
    )
    text = vnpu.ok(*arguments).out
    assert "array_rows = 0 (an integer from 1 to 256)" in text
    assert text.endswith(f"\nwritten to {out}\n")
    header, good, bad = out.read_text().splitlines()
    assert header.startswith("array,cycles,time_ms,") and header.endswith(",npu_digest,reason")
    assert good.startswith("8x8,") and bad.startswith("0x16,,,")
    table = vnpu.ok(*arguments[:-2], "--json").json
    assert [row["array"] for row in table["rows"]] == ["8x8", "0x16"]
    assert good.split(",")[1] == str(table["rows"][0]["cycles"])


def test_disasm_prints_layers(vnpu: Command, folder: Path) -> None:
    text = vnpu.ok("disasm", folder / "dir").out
    assert f"; region0: {LAYER} (" in text and "FENCE" in text and "END" in text
    parts = vnpu.ok("disasm", folder / "dir", "--json").json
    table = vnpu.ok("profile", folder / "dir", "--json").json
    stream = [line for part in parts for line in part["commands"]]
    assert [int(line.split()[0]) for line in stream] == list(range(len(stream)))
    one = vnpu.ok("disasm", folder / "dir", "--region", "0", "--layer", "first/Relu", "--json").json
    assert [part["layer"] for part in one] == [LAYER]
    assert len(one[0]["commands"]) == table["layers"][0]["commands"]


@pytest.mark.parametrize("module", COMMANDS, ids=lambda module: str(module.NAME))
def test_every_command_has_help(module: object, capsys: pytest.CaptureFixture[str]) -> None:
    from tvm_vnpu.cli.entry import parser

    with pytest.raises(SystemExit) as caught:
        parser().parse_args([module.NAME, "--help"])  # type: ignore[attr-defined]
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "--json" in text and "-v, --verbose" in text


def test_help_is_fast_and_imports_no_framework() -> None:
    code = (
        "import sys\nfrom tvm_vnpu.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit: pass\n"
        "loaded = {'tvm', 'onnx', 'numpy'} & set(sys.modules)\n"
        "sys.stderr.write(repr(sorted(loaded)))"
    )
    begin = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "[]")
    assert time.perf_counter() - begin < 2.0


def test_python_m_is_the_command() -> None:
    command = [sys.executable, "-m", "tvm_vnpu", "--version"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "vnpu 0.1.0\n")


def test_progress_goes_to_stderr_and_keeps_quiet_when_short(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Console() as console:
        for done in range(3):
            console.progress("stage", done, 2)
        console.result("text", {})
    assert capsys.readouterr() == ("text\n", "")


def test_progress_of_a_long_stage_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_vnpu.cli.console._SILENT_SECONDS", 0)
    with Console() as console:
        console.progress("calibrate", 0, None)
        console.progress("compile", 2, 2)
    out, err = capsys.readouterr()
    assert out == "" and "calibrate" in err and "2/2" in err
    with Console(json_mode=True) as console:
        console.progress("compile", 0, 2)
    assert capsys.readouterr() == ("", "")
