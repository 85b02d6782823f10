"""Links inside the documentation lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.source import ROOT

_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
_FOLDERS = (".", "docs", "examples", "benchmarks")


def markdown_files() -> list[Path]:
    """List the project's pages, those at the top level and all in the folders that hold any."""
    top, *folders = _FOLDERS
    found = [*(ROOT / top).glob("*.md")]
    for folder in folders:
        found += (ROOT / folder).rglob("*.md")
    return sorted(found)


def dangling_links(text: str, folder: Path) -> list[str]:
    """Name the relative links of a page that lead to no file."""
    targets = [target for target in _LINK.findall(text) if "://" not in target]
    return [target for target in targets if not (folder / target).exists()]


@pytest.mark.parametrize("page", markdown_files(), ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    assert dangling_links(page.read_text(encoding="utf-8"), page.parent) == []


def test_a_dangling_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "here.md").touch()
    text = "[a](here.md#part) [b](gone.md) [c](https://example.org/x.md)"
    assert dangling_links(text, tmp_path) == ["gone.md"]
