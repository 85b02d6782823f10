"""Golden files are compared, and rewritten only on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_files import check_golden


def test_an_update_is_what_the_next_run_compares_with(tmp_path: Path) -> None:
    path = tmp_path / "golden" / "kernel.c"
    check_golden(path, "a;\n", update=True)
    check_golden(path, "a;\n", update=False)
    with pytest.raises(AssertionError):
        check_golden(path, "b;\n", update=False)
    assert path.read_text() == "a;\n"


def test_a_missing_file_names_the_flag(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"^kernel.c is missing: .*--update-golden"):
        check_golden(tmp_path / "kernel.c", "a;\n", update=False)
