"""Generate `docs/operators.md`: operators, their attributes and their constraints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from codegen.ops import operators
from codegen.ops.base import Operator, rule_text

PATH = Path("docs/operators.md")
_HEAD = """\
<!-- Generated from codegen/ops/ by `python -m scripts.regen`: edit those files instead. -->

# Operators

What an NpuGraph may hold. An operator that breaks a constraint stays on the CPU; `vnpu explain`
quotes the rule and the value seen. Beyond these rules, at least one tile of the operator must fit
the scratchpad and the accumulator of the NPU.
"""
_BASE = tuple(field.name for field in fields(Operator))


def generate(root: Path) -> dict[Path, str]:
    """Return the page: path below the repository root -> text."""
    del root
    return {PATH: text()}


def text() -> str:
    """Return the page's text."""
    return "\n".join([_HEAD, *(line for cls in operators().values() for line in _section(cls))])


def _section(cls: type[Operator]) -> Iterator[str]:
    yield f"## {cls.kind}"
    yield ""
    yield " ".join((cls.__doc__ or "").split())
    yield ""
    attributes = [field.name for field in fields(cls) if field.name not in _BASE]
    if attributes:
        yield f"Attributes: {', '.join(f'`{name}`' for name in attributes)}."
        yield ""
    yield from (f"- {rule_text(constraint)}" for constraint in cls.constraints)
    yield ""
