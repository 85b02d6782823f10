"""Names of NpuGraph operators, which are unique within a graph."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.ops.base import Operator


def fresh_name(name: str, operators: Iterable[Operator]) -> str:
    """Return `name`, numbered from #2 on where an operator has it already."""
    taken = {operator.name for operator in operators}
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}#{count}"
    return candidate
