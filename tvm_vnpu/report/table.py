"""Tables for people: aligned text, and the same as HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

Cell = str | int | float | None
_PERCENT = re.compile(r"-?[\d.,]+%")


def format_cell(value: Cell) -> str:
    """Show one value: thousands separated, two decimals, empty for None."""
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else value


def text_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return rows under headers; columns of numbers align right."""
    lines = [list(headers), *([format_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(headers))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right)
        ).rstrip()
        for line in lines
    )


def _is_numeric(cells: Sequence[Cell]) -> bool:
    return any(cell is not None for cell in cells) and all(
        cell is None or not isinstance(cell, str) or _PERCENT.fullmatch(cell) for cell in cells
    )


def html_table(headers: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return the table as HTML."""
    head = "".join(f"<th>{html.escape(header)}</th>" for header in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(format_cell(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def percent(share: float) -> str:
    """Show a share of 0 to 1 as per cent."""
    return f"{share:.1%}"


def size(count: int) -> str:
    """Show a number of bytes in the unit people read."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}"
    return f"{count} B"
