"""Write every generated file, or with --check fail when one is stale.

    python -m scripts.regen [--check]

A generator is a function from the repository root to {path: text}; add yours to GENERATORS.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from codegen.ops import document
from runtime_sim.isa import generate, header
from scripts import render_results

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python -m scripts.regen"

Generator = Callable[[Path], dict[Path, str]]
GENERATORS: tuple[Generator, ...] = (
    generate.generate,
    header.generate,
    document.generate,
    render_results.generate,
)


def stale_files(root: Path, generators: Iterable[Generator]) -> dict[Path, str]:
    """Return path and right text of every generated file that is missing or differs.

    Raises ValueError when two generators claim the same file.
    """
    texts: dict[Path, str] = {}
    for generator in generators:
        for path, text in generator(root).items():
            path = root / path
            if path in texts:
                raise ValueError(f"two generators write {path.relative_to(root)}: keep one")
            texts[path] = text
    return {path: text for path, text in texts.items() if _read(path) != text}


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def regenerate(root: Path, generators: Iterable[Generator], check: bool) -> int:
    """Write the stale files, or only name them on stderr; return the process's exit code."""
    stale = stale_files(root, generators)
    for path, text in stale.items():
        name = path.relative_to(root)
        if check:
            print(f"{name} is stale: run `{COMMAND}` and commit the result", file=sys.stderr)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {name}")
    return 1 if check and stale else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all generators."""
    parser = argparse.ArgumentParser(description="Write every generated file.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when stale")
    return regenerate(ROOT, GENERATORS, parser.parse_args(arguments).check)


if __name__ == "__main__":
    sys.exit(main())
