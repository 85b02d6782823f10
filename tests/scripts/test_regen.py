"""Generated files are written, compared and claimed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import regen


def _generator(name: str, text: str) -> regen.Generator:
    return lambda root: {root / name: text}


def test_a_missing_file_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generators = [_generator("docs/a.md", "a\n")]
    assert regen.regenerate(tmp_path, generators, check=False) == 0
    assert (tmp_path / "docs" / "a.md").read_text() == "a\n"
    assert capsys.readouterr().out == "wrote docs/a.md\n"
    assert regen.regenerate(tmp_path, generators, check=False) == 0
    assert capsys.readouterr().out == ""


def test_check_names_the_stale_file_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("old")
    assert regen.regenerate(tmp_path, [_generator("a.md", "new")], check=True) == 1
    assert capsys.readouterr().err == (
        "a.md is stale: run `python -m scripts.regen` and commit the result\n"
    )
    assert (tmp_path / "a.md").read_text() == "old"


def test_check_passes_when_fresh(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("new")
    assert regen.regenerate(tmp_path, [_generator("a.md", "new")], check=True) == 0


def test_two_generators_of_one_file_are_refused(tmp_path: Path) -> None:
    generators = [_generator("a.md", "x"), _generator("a.md", "y")]
    with pytest.raises(ValueError, match="two generators write a.md: keep one"):
        regen.stale_files(tmp_path, generators)


def test_every_generated_file_of_the_project_is_fresh() -> None:
    assert list(regen.stale_files(regen.ROOT, regen.GENERATORS)) == []
