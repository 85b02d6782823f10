"""What every benchmark shares: its arguments, its table, and the file its figures go to.

A benchmark prints a table and calls `write_result`; docs/results.md is generated from those files.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
QUICK_RESULTS = ROOT / "build" / "benchmarks"
_DISTRIBUTIONS = {
    "numpy": "numpy",
    "tvm": "apache-tvm",
    "tvm with Relay": "xtc-tvm-python-bindings",
    "onnxruntime": "onnxruntime",
}


def argument_parser(description: str) -> argparse.ArgumentParser:
    """Make the parser every benchmark starts from: `--quick` and `--results`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--quick", action="store_true", help="a reduced run; never overwrites recorded results"
    )
    parser.add_argument(
        "--results", type=Path, help="folder for the result file (default: benchmarks/results)"
    )
    return parser


def results_folder(arguments: argparse.Namespace) -> Path:
    """Choose the folder for the result file: `--results`, else build/benchmarks when quick."""
    if arguments.results is not None:
        return Path(arguments.results)
    return QUICK_RESULTS if arguments.quick else RESULTS


def write_result(
    name: str,
    figures: Mapping[str, Any],
    configuration: Mapping[str, Any],
    folder: Path = RESULTS,
) -> Path:
    """Write `<folder>/<name>.json` and return its path.

    Values are JSON values, NumPy scalars or arrays; units belong in the key ("cycles", "time_ms").
    Raises ValueError for a NaN or an infinity, TypeError for any other type.
    """
    result = {
        "name": name,
        "figures": figures,
        "configuration": configuration,
        "command": command_line(),
        "versions": versions(),
        "date": datetime.date.today().isoformat(),
    }
    text = json.dumps(result, indent=2, allow_nan=False, default=_from_numpy) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    return path


def _from_numpy(value: Any) -> Any:
    """Turn a NumPy scalar or array into what JSON holds."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a result holds JSON values and NumPy values, not {type(value).__name__}")


def command_line() -> str:
    """Describe how this process was started, without the folder it was started from."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None:
        start = ["python", "-m", spec.name.removesuffix(".__main__")]
    else:
        start = ["python", Path(sys.argv[0]).name]
    return shlex.join(start + sys.argv[1:])


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the figures, as installed."""
    found = {"python": platform.python_version()}
    for name, distribution in _DISTRIBUTIONS.items():
        try:
            found[name] = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def format_table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> str:
    """Lay out rows under headers; numbers align right and floats show at most four digits.

    Raises ValueError when a row is not as long as the headers.
    """
    table = [list(row) for row in rows]
    for row in table:
        if len(row) != len(headers):
            raise ValueError(f"row {row} has {len(row)} cells, the table {len(headers)} columns")
    cells = [list(headers), *([format_value(value) for value in row] for row in table)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(headers))]
    right = [
        bool(table) and all(isinstance(row[column], (int, float)) for row in table)
        for column in range(len(headers))
    ]
    lines = [_line(line, widths, right) for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right)
    ]
    return "  ".join(padded).rstrip()


def format_value(value: Any) -> str:
    """Show one figure: thousands separated, floats to four significant digits or two decimals."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 10 else f"{value:.4g}"
    return str(value)


def print_table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> None:
    """Print rows under headers."""
    print(format_table(rows, headers))
