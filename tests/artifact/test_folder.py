"""What an artefact may replace: a folder that holds an artefact and nothing else."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.artifact.models import classifier, images, write
from tvm_vnpu.artifact import compile_model
from tvm_vnpu.artifact.folder import check_output, staged
from tvm_vnpu.artifact.meta import ArtifactError

_META = {"format": 1, "isa_version": 1, "source": {}, "npu": {}, "regions": []}


def _files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def _artifact(folder: Path) -> Path:
    """Make what `compile` would have written, as far as `check_output` looks."""
    (folder / "regions").mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(_META))
    for name in ("model.so", "source.onnx", "source.onnx.data"):
        (folder / name).touch()
    for name in ("vnpu.h", "region0.c", "region12.bin", "region0.constants.bin"):
        (folder / "regions" / name).touch()
    return folder


def _refusal(folder: Path) -> str:
    before = _files(folder.parent)
    with pytest.raises(ArtifactError) as caught, staged(folder):
        raise AssertionError("not reached")
    assert _files(folder.parent) == before
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "not json",
        '{"format": 1}',
        json.dumps({**_META, "format": "mine"}),
        json.dumps({**_META, "format": True}),
        "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_a_meta_json_of_somebody_else_is_no_artefact(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "meta.json").write_text(text)
    assert _refusal(tmp_path / "mine") == (
        f"the output folder exists and is no artefact: seen {tmp_path}/mine; "
        "name a new folder with -o, or empty this one"
    )


def _file(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text("thesis")


def _folder(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).mkdir()

    return make


def _link(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/etc")

    return make


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("thesis.txt", _file("thesis.txt")),
        (".hidden", _file(".hidden")),
        ("regions/notes", _file("regions/notes")),
        ("regions/region0.c.orig", _file("regions/region0.c.orig")),
        ("data", _folder("data")),
        ("model.so", _folder("model.so")),
        ("regions/vnpu.h", _folder("regions/vnpu.h")),
        ("model.so", _link("model.so")),
        ("regions/region0.c", _link("regions/region0.c")),
    ],
)
def test_what_vnpu_did_not_write_is_never_replaced(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    folder = _artifact(tmp_path / "out")
    check_output(folder)
    make(folder)
    assert _refusal(folder) == (
        f"the output folder holds what vnpu did not write: seen {folder / name}; "
        "name a new folder with -o, or move it away"
    )


def test_a_file_that_appears_during_the_compilation_is_kept(tmp_path: Path) -> None:
    folder = _artifact(tmp_path / "out")
    with pytest.raises(ArtifactError, match="did not write"), staged(folder):
        (folder / "thesis.txt").write_text("all of it")
    assert (folder / "thesis.txt").read_text() == "all of it"
    assert sorted(os.listdir(tmp_path)) == ["out"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_artefact_of_any_version_is_replaced(tmp_path: Path, version: int) -> None:
    folder = _artifact(tmp_path / "out")
    (folder / "meta.json").write_text(json.dumps({**_META, "format": version}))
    with staged(folder) as stage:
        (stage / "meta.json").write_text("new")
    assert _files(tmp_path) == ["out", "out/meta.json"]


def test_a_real_artefact_holds_nothing_foreign(tmp_path: Path) -> None:
    model = write(tmp_path, classifier())
    compile_model(model, tmp_path / "out", calibration=[{"image": images()}])
    check_output(tmp_path / "out")


def test_a_link_to_an_artefact_stays_one(tmp_path: Path) -> None:
    _artifact(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    with staged(tmp_path / "link") as stage:
        (stage / "meta.json").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert _files(tmp_path / "real") == ["meta.json"]


@pytest.mark.parametrize(
    ("name", "why"),
    [("a" * 300, "File name too long"), ("a\0b", "embedded null byte")],
    ids=["long", "nul"],
)
def test_a_name_that_no_folder_can_have(tmp_path: Path, name: str, why: str) -> None:
    path = str(tmp_path / name)
    shown = path if path.isprintable() else repr(path)
    with pytest.raises(ArtifactError) as caught:
        check_output(Path(path))
    assert str(caught.value) == (
        f"the output folder cannot be written: seen {shown}: {why}; name another folder with -o"
    )


def test_a_longest_name_is_fine(tmp_path: Path) -> None:
    with staged(tmp_path / ("a" * 255)) as stage:
        (stage / "meta.json").write_text("new")


def test_the_current_folder_is_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("", "."):
        with pytest.raises(ArtifactError) as caught:
            check_output(Path(name))
        assert str(caught.value) == (
            f"the output is the current folder: seen {tmp_path}; name another folder with -o"
        )


def test_an_error_elsewhere_does_not_blame_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with pytest.raises(ArtifactError) as caught, staged(tmp_path / "out"):
        tempfile.mkdtemp(prefix="vnpu-")
    assert str(caught.value).startswith(
        "compiling needs a file or folder that cannot be used: seen [Errno 2] No such file"
    )
    assert str(caught.value).endswith("; check TMPDIR and the C compiler")
