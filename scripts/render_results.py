"""Render benchmarks/results/*.json as docs/results.md and as the table in README.md.

Called by scripts/regen.py; nothing in docs/results.md is written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import format_value

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
HEADLINE = "fashion_mnist"
_NOTHING = "No results recorded yet."
_HEADER = "<!-- Generated from benchmarks/results/*.json; change with: python -m scripts.regen -->"


def generate(root: Path) -> dict[Path, str]:
    """Return the text of docs/results.md and of README.md, by absolute path."""
    results = load_results(root / "benchmarks" / "results")
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    headline = results.get(HEADLINE)
    return {
        root / "docs" / "results.md": render_page(results),
        readme: replace_section(text, render_headline(headline) if headline else _NOTHING),
    }


def load_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Read every result file of a folder, sorted by name."""
    files = sorted(folder.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def render_page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Render all results as one page, a section each."""
    sections = [_HEADER, "# Results", *(render_result(result) for result in results.values())]
    if not results:
        sections.append(_NOTHING)
    return "\n\n".join(sections) + "\n"


def render_result(result: Mapping[str, Any]) -> str:
    """Render one result: its figures, then how and when they were measured."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    parts = [
        f"## {_label(result['name'])}",
        *_figure_tables(result["figures"]),
        f"Measured on {result['date']} with {versions}:",
        f"```\n{result['command']}\n```",
    ]
    if result["configuration"]:
        parts.insert(-2, _scalar_table(result["configuration"], "configuration"))
    return "\n\n".join(parts)


def render_headline(result: Mapping[str, Any]) -> str:
    """Render the single figures of one result as one table, for the README."""
    scalars = {key: value for key, value in result["figures"].items() if not _is_nested(value)}
    return _scalar_table(scalars, "figure")


def replace_section(text: str, body: str) -> str:
    """Replace what stands between the two markers.

    Raises ValueError when the markers are missing or in the wrong order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md needs the lines {BEGIN} and {END}, in this order")
    return f"{before}{BEGIN}\n{body}\n{END}{after}"


def _figure_tables(figures: Mapping[str, Any]) -> list[str]:
    """Render single figures as one table, then each nested mapping or list of rows as its own."""
    scalars = {key: value for key, value in figures.items() if not _is_nested(value)}
    tables = [_scalar_table(scalars, "figure")] if scalars else []
    for key, value in figures.items():
        if isinstance(value, Mapping):
            tables.append(_scalar_table(value, _label(key)))
        elif _is_nested(value):
            tables += [f"### {_label(key)}", _rows_table(value)]
    return tables


def _is_nested(value: Any) -> bool:
    """Tell a mapping or a list of mappings from a figure that fits one cell."""
    rows = isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
    return isinstance(value, Mapping) or rows


def _scalar_table(values: Mapping[str, Any], title: str) -> str:
    return _markdown([[_label(key), value] for key, value in values.items()], [title, "value"])


def _rows_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Render rows that may lack a column; columns keep the order in which they appear."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[row.get(column, "") for column in columns] for row in rows]
    return _markdown(cells, [_label(column) for column in columns])


def _markdown(rows: Sequence[Sequence[Any]], headers: Sequence[str]) -> str:
    lines = [list(headers), ["---"] * len(headers), *([_cell(v) for v in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    return format_value(value).replace("|", "\\|")


def _label(key: str) -> str:
    return key.replace("_", " ")
