"""Errors a user can put right: the exact line, exit code 2, nothing written."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.artifact.models import classifier, images, wide, write, write_npz
from tests.cli.command import Command
from tests.relax.onnx_models import random_values

PRESETS = "vnpu-1024, vnpu-256, vnpu-256-lowbw, vnpu-4096, vnpu-64"
NAME_THEM = "name the arrays after the model's inputs"


@pytest.fixture
def place(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: `model.onnx`, the artefact `dir`, and data good and bad."""
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "data.npz", "inputs.npz"):
        shutil.copy(folder / name, tmp_path)
    (tmp_path / "dir").symlink_to(folder / "dir")
    good = images()
    bad = good.copy()
    bad[1, 0, 2, 3] = np.nan
    write_npz(tmp_path / "nan.npz", image=bad)
    write_npz(tmp_path / "empty.npz", image=good[:0])
    write_npz(tmp_path / "name.npz", picture=good)
    write_npz(tmp_path / "dtype.npz", image=good.astype(np.float64))
    write_npz(tmp_path / "shape.npz", image=good[..., :7])
    write_npz(tmp_path / "two.npz", image=good, a=good, b=good)
    write_npz(tmp_path / "scores.npz", image=good, labels=good)
    write_npz(tmp_path / "wide.npz", image=random_values(1, 512, 4, 4))
    write(tmp_path, classifier(height="H"), "dynamic.onnx")
    write(tmp_path, wide(), "wide.onnx")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "inputs.npz").read_bytes()[:400])
    (tmp_path / "cut.onnx").write_bytes((tmp_path / "model.onnx").read_bytes()[:200])
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious.txt").touch()
    (tmp_path / "small.toml").write_text("spm_kib = 1\nacc_kib = 1\n")
    return tmp_path


COMPILE = [
    (
        "compile model.onnx -o out",
        "model.onnx is a float model and there is no calibration data: give some with "
        "--calib DATA, or see cycles without it with `vnpu profile`",
    ),
    (
        "compile model.onnx -o out --calib nan.npz",
        "calibration batch 0, input 'image' holds NaN or infinity: seen 1 of 384 values; "
        "limit finite values; clean the calibration data",
    ),
    (
        "compile model.onnx -o out --calib empty.npz",
        "the calibration set is empty: seen 0 batches; limit at least 1 batch; "
        "give some of the training data",
    ),
    (
        "compile model.onnx -o out --calib name.npz",
        "calibration batch 0 has an input the model does not have: seen 'picture'; "
        f"limit the inputs are image; {NAME_THEM}",
    ),
    (
        "compile model.onnx -o out --calib dtype.npz",
        "calibration batch 0, input 'image' has the wrong dtype: seen float64; limit float32; "
        "convert it to a float32 array",
    ),
    (
        "compile model.onnx -o out --calib shape.npz",
        "calibration batch 0, input 'image' has the wrong shape: seen (6, 1, 8, 7); "
        "limit (1, 1, 8, 8), any multiple of it along the first axis; reshape the data",
    ),
    (
        "compile model.onnx -o out --calib cut.npz",
        "cannot read cut.npz as an .npz file: seen File is not a zip file; "
        "check that the file is complete; np.savez writes one",
    ),
    (
        "compile model.onnx -o out --calib none.npz",
        "no such data: seen none.npz; limit an .npz file, a folder of .npy files or of images, "
        "or module:function; check the path",
    ),
    (
        "compile dynamic.onnx -o out --calib data.npz",
        "input 'image' has a dynamic axis 2: seen (1, 1, H, 8); limit only axis 0, the batch, "
        "may be dynamic; give its size with --shape image=1,1,SIZE,8",
    ),
    (
        "compile dynamic.onnx -o out --calib data.npz --shape image:8",
        "--shape is malformed: seen 'image:8'; limit NAME=SIZE,SIZE,...; "
        "for example --shape input=1,3,224,224",
    ),
    (
        "compile dynamic.onnx -o out --calib data.npz --shape image=1,1,8",
        "shape given for input 'image' does not fit the model: seen 1,1,8; limit the model "
        "declares (1, 1, H, 8); give one positive size per axis, equal to the declared one where "
        "it is fixed",
    ),
    (
        "compile dynamic.onnx -o out --calib data.npz --shape picture=1,1,8,8",
        "shape given for an input the model does not have: seen 'picture'; "
        "limit the inputs are image; use one of these names in --shape",
    ),
    (
        "compile none.onnx -o out --calib data.npz",
        "no such model file: seen none.onnx",
    ),
    (
        "compile model.tflite -o out",
        "cannot read 'model.tflite' as a model: seen suffix '.tflite'; limit .onnx; "
        "export the model to ONNX",
    ),
    (
        "compile model.onnx -o out --calib data.npz --npu vnpu-7",
        f"unknown NPU 'vnpu-7': limit one of {PRESETS}; name a preset or a .toml file",
    ),
    (
        "compile model.onnx -o out --calib data.npz --rounding down",
        "unknown rounding profile 'down': limit one of integer, onnx, tflite, relay",
    ),
    (
        "compile model.onnx -o model.onnx --calib data.npz",
        "the output is a file, not a folder: seen model.onnx; name another folder with -o",
    ),
    (
        "compile model.onnx -o full --calib data.npz",
        "the output folder exists and is no artefact: seen full; "
        "name a new folder with -o, or empty this one",
    ),
    (
        "compile model.onnx -o model.onnx/out --calib data.npz",
        "the output folder is not writable: seen model.onnx/out; "
        "limit {place}/model.onnx can be written to; name another folder with -o",
    ),
    (
        "compile model.onnx --calib data.npz",
        "the following arguments are required: -o/--output: see `vnpu compile --help`",
    ),
    (
        "compile model.onnx -o out --calib data.npz --mean a,b",
        "--mean is malformed: seen 'a,b'; limit finite numbers, with commas",
    ),
    (
        "compile model.onnx -o out --calib data.npz --size 1,2,3",
        "--size is malformed: seen '1,2,3'; limit N or HEIGHT,WIDTH, each from 1 to 16384",
    ),
    (
        "compile model.onnx -o out --calib data.npz --size ²",
        "--size is malformed: seen '²'; limit N or HEIGHT,WIDTH, each from 1 to 16384",
    ),
    (
        "compile model.onnx -o out --calib data.npz --crop 99999999",
        "--crop is malformed: seen '99999999'; limit N or HEIGHT,WIDTH, each from 1 to 16384",
    ),
    (
        "compile model.onnx -o out --calib data.npz --std inf",
        "--std is malformed: seen 'inf'; limit finite numbers above 0, with commas",
    ),
    (
        "compile model.onnx -o out --calib data.npz --std 1e-50",
        "--std is malformed: seen '1e-50'; limit finite numbers above 0, with commas",
    ),
    (
        "compile model.onnx -o out --calib data.npz --mean 1e39",
        "--mean is malformed: seen '1e39'; limit finite numbers, with commas",
    ),
    (
        "compile model.onnx -o out --calib data.npz --shape image=1,1,8,99999999999999999999",
        "--shape is malformed: seen 'image=1,1,8,99999999999999999999'; "
        "limit NAME=SIZE,SIZE,...; for example --shape input=1,3,224,224",
    ),
]

USE = [
    (
        "run none --input inputs.npz",
        "no such artefact folder: seen none; make one with `vnpu compile MODEL -o DIR`",
    ),
    (
        "run full --input inputs.npz",
        "the folder is no artefact: seen no meta.json in full; "
        "make one with `vnpu compile MODEL -o DIR`",
    ),
    (
        "run model.onnx --input inputs.npz",
        "the artefact is not a folder: seen model.onnx; make one with `vnpu compile MODEL -o DIR`",
    ),
    (
        "run dir --input name.npz",
        "the model has no input of this name: seen 'picture'; limit the inputs are image; "
        f"{NAME_THEM}",
    ),
    (
        "run dir --input dtype.npz",
        "input 'image' has the wrong dtype: seen float64; limit float32; "
        "convert it with astype('float32')",
    ),
    (
        "run dir --input shape.npz",
        "input 'image' has the wrong shape: seen (6, 1, 8, 7); limit (1, 1, 8, 8), or a multiple "
        "along axis 0; reshape the array",
    ),
    (
        "run dir --input cut.npz",
        "cannot read cut.npz as an .npz file: seen File is not a zip file; "
        "check that the file is complete; np.savez writes one",
    ),
    ("run dir --input none.npz", "no such input file: seen none.npz"),
    (
        "run dir --input inputs.npz --output none/y.npz",
        "the output file cannot be written: seen none/y.npz: No such file or directory; "
        "name another file",
    ),
    (
        "eval dir --validate inputs.npz",
        "the validation set has no labels: seen arrays image; limit one array 'labels' beside the "
        "inputs image; add it to the data, or name it with --labels",
    ),
    (
        "eval dir --validate two.npz",
        "which array holds the labels?: seen arrays image, a, b; limit one array 'labels' beside "
        "the inputs image; add it to the data, or name it with --labels",
    ),
    (
        "eval dir --validate scores.npz",
        "the labels 'labels' are no class numbers: seen float32 of shape (6, 1, 8, 8); "
        "limit one integer for each sample",
    ),
    (
        "eval dir --validate empty.npz",
        "the validation set is empty: seen 0 samples; limit at least 1",
    ),
    (
        "profile dir --npu vnpu-64",
        "--npu does not go with an artefact folder, which was compiled already: "
        "leave --npu out, or name the model file",
    ),
    ("disasm dir --region 1", "no such region: seen 1; limit 0 to 0"),
    (
        "disasm dir --layer second",
        "no such layer: seen 'second'; limit first/Conv+first/Relu, mean, fc",
    ),
    ("", "the following arguments are required: COMMAND: see `vnpu --help`"),
]


@pytest.mark.parametrize(("arguments", "line"), COMPILE, ids=lambda text: str(text)[:60])
def test_compile_refuses(vnpu: Command, place: Path, arguments: str, line: str) -> None:
    before = sorted(place.rglob("*"))
    assert vnpu.error(*arguments.split()) == line.format(place=place)
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(("arguments", "line"), USE, ids=lambda text: str(text)[:60])
def test_the_other_commands_refuse(vnpu: Command, place: Path, arguments: str, line: str) -> None:
    before = sorted(place.rglob("*"))
    assert vnpu.error(*arguments.split()) == line
    assert sorted(place.rglob("*")) == before


def test_a_truncated_model_is_refused(vnpu: Command, place: Path) -> None:
    line = vnpu.error("compile", "cut.onnx", "-o", "out", "--calib", "data.npz")
    assert line.startswith("cannot read 'cut.onnx' as an ONNX model: seen ")
    assert line.endswith("; check that the file is complete and is an .onnx model")


@pytest.mark.parametrize("command", ["compile", "profile"])
def test_an_npu_too_small_for_any_tile(vnpu: Command, place: Path, command: str) -> None:
    rest = ("-o", "out", "--calib", "wide.npz") if command == "compile" else ()
    assert vnpu.error(command, "wide.onnx", "--npu", "small.toml", *rest) == (
        "no operator of wide.onnx runs on NPU 'small': seen wide/Conv: no tile of it fits the "
        "memories of small; limit SPM 1 KiB, ACC 1 KiB; choose another NPU with --npu; "
        "`vnpu explain MODEL` lists every reason"
    )
    assert not (place / "out").exists()


def test_explain_says_why_nothing_fits(vnpu: Command, place: Path) -> None:
    text = vnpu.ok("explain", "wide.onnx", "--npu", "small.toml").out
    assert "wide/Conv" in text and "no tile of it fits the memories of small" in text


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        (
            {"PATH": "", "CC": ""},
            "no C compiler: limit $CC or one of cc, gcc, clang on PATH; install gcc or clang",
        ),
        (
            {"CC": "no-such-cc"},
            "no C compiler: seen CC=no-such-cc; point CC to a C compiler or unset it",
        ),
    ],
)
def test_no_c_compiler(
    vnpu: Command,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    line: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert vnpu.error("compile", "model.onnx", "-o", "out", "--calib", "data.npz") == line
    assert not (place / "out").exists()


def test_an_output_folder_that_cannot_be_written(
    vnpu: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    line = vnpu.error("compile", "model.onnx", "-o", "sub/out", "--calib", "data.npz")
    assert line == (
        f"the output folder is not writable: seen sub/out; limit {place} can be written to; "
        "name another folder with -o"
    )


@pytest.mark.parametrize(
    ("file", "why"), [("full", "it is a folder"), ("none/t.json", "No such file or directory")]
)
def test_a_trace_that_cannot_be_written(vnpu: Command, place: Path, file: str, why: str) -> None:
    before = sorted(place.rglob("*"))
    assert vnpu.error("profile", "dir", "--trace", file) == (
        f"the trace cannot be written: seen {file}: {why}; name another file"
    )
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--set", "spm=1"], "an NPU configuration has no such field: seen 'spm'; limit one of "),
        (["--set", "array=16"], "array has a malformed value: seen '16'; limit ROWSxCOLS"),
        (["--set", "lanes=8", "--npu", "vnpu-1"], "unknown NPU 'vnpu-1'"),
        (["--set", "lanes=8", "--rounding", "up"], "unknown rounding profile 'up'"),
        (["--set", "lanes=8", "--jobs", "0"], "a sweep needs a process: seen 0 jobs"),
        (
            ["--set", "lanes=8", "-o", "full"],
            "the table cannot be written: seen full: it is a folder; name another file",
        ),
        ([], "the following arguments are required: --set: see `vnpu sweep --help`"),
    ],
)
def test_sweeps_that_cannot_begin(
    vnpu: Command, place: Path, arguments: list[str], line: str
) -> None:
    before = sorted(place.rglob("*"))
    assert vnpu.error("sweep", "model.onnx", *arguments).startswith(line)
    assert sorted(place.rglob("*")) == before


def test_a_sweep_of_a_bad_model_leaves_no_table(vnpu: Command, place: Path) -> None:
    vnpu.error("sweep", "cut.onnx", "--set", "lanes=8", "-o", "sweep.csv")
    assert not [path for path in place.iterdir() if "sweep" in path.name]


def test_a_model_that_cannot_be_profiled_leaves_no_trace(vnpu: Command, place: Path) -> None:
    vnpu.error("profile", "cut.onnx", "--trace", "t.json")
    assert not [path for path in place.iterdir() if "t.json" in path.name]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("format", 2, "artefact other has another format: seen 2; limit 1"),
        ("isa_version", 9, "artefact other has another vNPU ISA version: seen 9; limit 1"),
    ],
)
def test_an_artifact_of_another_version(
    vnpu: Command, place: Path, key: str, value: int, line: str
) -> None:
    shutil.copytree(place / "dir", place / "other")
    meta = place / "other" / "meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), key: value}))
    expected = f"{line}; compile the model again with this version"
    for command in (["run", "other", "--input", "inputs.npz"], ["profile", "other"]):
        assert vnpu.error(*command) == expected


@pytest.mark.parametrize("damage", ["[", "{}", '{"format": 1, "isa_version": 1}'])
def test_a_damaged_table(vnpu: Command, place: Path, damage: str) -> None:
    (place / "other").mkdir()
    (place / "other" / "meta.json").write_text(damage)
    assert "compile the model again" in vnpu.error("profile", "other")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("regions/region0.bin", "cannot read other/regions/region0.bin: seen "),
        ("model.so", "cannot load other/model.so: seen "),
        ("source.onnx", "no such model file: seen other/source.onnx"),
    ],
)
def test_a_missing_part(vnpu: Command, place: Path, file: str, line: str) -> None:
    shutil.copytree(place / "dir", place / "other")
    (place / "other" / file).unlink()
    command = ["eval", "other", "--validate", "data.npz"]
    if file.endswith(".bin"):
        command = ["profile", "other"]
    assert vnpu.error(*command).startswith(line)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ("compile model.onnx -o out --calib", "calib"),
        ("compile model.onnx --calib data.npz -o", "output"),
        ("sweep model.onnx --set lanes=8 -o", "output"),
        ("profile dir --trace", "trace"),
        ("run dir --input inputs.npz --output", "output"),
        ("profile", "target"),
    ],
)
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_value_is_refused(
    vnpu: Command, place: Path, arguments: str, name: str, value: str
) -> None:
    before = sorted(place.rglob("*"))
    assert vnpu.error(*arguments.split(), value) == (
        f"the value of {name} is empty: seen {value!r}; give one"
    )
    assert sorted(place.rglob("*")) == before


def test_image_options_without_images(vnpu: Command, place: Path) -> None:
    assert vnpu.error("compile", "model.onnx", "-o", "out", "--crop", "4") == (
        "--crop goes with --calib: give both or neither"
    )
    line = vnpu.error("eval", "dir", "--validate", "data.npz", "--crop", "4")
    assert line == "--crop goes with a folder of images: seen data.npz; leave it out"


def test_a_compiler_that_writes_nothing(
    vnpu: Command, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "true")
    assert vnpu.error("compile", "model.onnx", "-o", "out", "--calib", "data.npz") == (
        "the C compiler wrote no object file: seen true; try another compiler with CC=..."
    )
    assert not (place / "out").exists()


def test_compile_spares_a_folder_of_somebody_else(vnpu: Command, place: Path) -> None:
    (place / "full" / "meta.json").write_text("{}")
    line = vnpu.error("compile", "model.onnx", "-o", "full", "--calib", "data.npz")
    assert line.startswith("the output folder exists and is no artefact: seen full; ")
    assert (place / "full" / "precious.txt").exists()


def test_a_linked_output_is_written_through_and_a_device_refused(
    vnpu: Command, place: Path
) -> None:
    (place / "link.npz").symlink_to("real.npz")
    vnpu.ok("run", "dir", "--input", "inputs.npz", "--output", "link.npz")
    assert (place / "link.npz").is_symlink() and (place / "real.npz").is_file()
    os.mkfifo(place / "fifo")
    for name in ("/dev/null", "fifo"):
        line = vnpu.error("run", "dir", "--input", "inputs.npz", "--output", name)
        assert line.startswith(f"the output file cannot be written: seen {name}: ")


def test_overflow_in_a_model_is_one_line(vnpu: Command, place: Path) -> None:
    data = np.load("inputs.npz")["image"]
    write_npz(place / "huge.npz", image=np.full_like(data, 3e38))
    line = vnpu.error("compile", "model.onnx", "-o", "out", "--calib", "huge.npz")
    assert "overflows" in line
