"""Comparing text with a recorded file."""

from __future__ import annotations

from pathlib import Path


def check_golden(path: Path, text: str, update: bool) -> None:
    """Compare text with a file, or with `update` write it there.

    Raises AssertionError when the file is missing or differs.
    """
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    assert path.exists(), f"{path.name} is missing: run pytest with --update-golden"
    assert text == path.read_text(encoding="utf-8")
