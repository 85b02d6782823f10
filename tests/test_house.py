"""House rules that no linter checks: sizes everywhere, manners in library code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.source import EVERYTHING, LIBRARY, python_files, read

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 40
_CALLS = {"print", "exit", "quit", "sys.exit", "os._exit"}
_WORDS = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")


def oversized(source: str) -> Iterator[str]:
    """Name a file or a function, nested ones counted within, that is too long."""
    lines = len(source.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{lines} lines in the file: at most {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{length} lines in {node.name}: at most {MAX_FUNCTION_LINES}"


def star_imports(source: str) -> Iterator[str]:
    """Name every `from x import *`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            yield f"line {node.lineno}: star import"


def bad_manners(source: str) -> Iterator[str]:
    """Name calls and words that library code must not hold."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _CALLS:
            yield f"line {node.lineno}: {ast.unparse(node.func)}() in library code"
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"line {node.lineno}: bare except"
    for number, line in enumerate(source.splitlines(), 1):
        if match := _WORDS.search(line):
            yield f"line {number}: {match[0]}"


@pytest.mark.parametrize("path", python_files(*EVERYTHING))
def test_sizes_and_imports(path: str) -> None:
    source = read(path)
    assert [*oversized(source), *star_imports(source)] == []


@pytest.mark.parametrize("path", python_files(*LIBRARY))
def test_library_manners(path: str) -> None:
    assert list(bad_manners(read(path))) == []


def test_no_file_is_called_utils() -> None:
    assert [path for path in python_files(*EVERYTHING) if path.endswith("/utils.py")] == []


def test_sizes_are_counted() -> None:
    body = "    pass\n" * (MAX_FUNCTION_LINES - 1)
    assert list(oversized(f"def f():\n{body}")) == []
    assert list(oversized(f"def f():\n{body}    pass\n")) == ["41 lines in f: at most 40"]
    assert list(oversized("\n" * 501)) == ["501 lines in the file: at most 500"]


def test_a_nested_function_counts_within_its_parent() -> None:
    nested = "    def g():\n" + "        pass\n" * 39
    assert list(oversized(f"def f():\n{nested}")) == ["41 lines in f: at most 40"]


def test_star_imports_are_found() -> None:
    assert list(star_imports("from json import *")) == ["line 1: star import"]


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("def f():\n    print(1)", "line 2: print() in library code"),
        ("import sys\nsys.exit(2)", "line 2: sys.exit() in library code"),
        ("try:\n    pass\nexcept:\n    pass", "line 3: bare except"),
        ("x = 1  # TO" + "DO: more", "line 1: TO" + "DO"),
        ("raise NotImplemented" + "Error", "line 1: NotImplemented" + "Error"),
    ],
)
def test_bad_manners_are_found(source: str, complaint: str) -> None:
    assert list(bad_manners(source)) == [complaint]
