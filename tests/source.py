"""Reading the project's own Python sources, for the tests that judge them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ("runtime_sim", "codegen", "tvm_vnpu")
EVERYTHING = (*LIBRARY, "scripts", "benchmarks", "examples", "tests")


def python_files(*folders: str) -> list[str]:
    """List the Python files under top-level folders, as sorted paths from the repository root."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def read(path: str) -> str:
    """Return the text of one file named from the repository root."""
    return (ROOT / path).read_text(encoding="utf-8")


def imported_modules(tree: ast.Module, package: str) -> Iterator[tuple[str, int]]:
    """Yield (absolute module name, line) of every import, at any depth of the file.

    `package` is the dotted package the file belongs to; relative imports start from it.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) - node.level + 1] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])]), node.lineno
