"""Unrolled loops in C: the copies of a body are calls of one function of the loop's variable.

A kernel stays as short as it is without unrolling. The function is C's only: the commands and
their cycles are those of the copies, as if it were inlined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.controller import CodeBranch, CodeLoop, CodeNode


@dataclass(frozen=True, slots=True)
class Step:
    """The body of an unrolled loop as a function of the variables of the loops around it.

    `variables` are outermost first: the last one is the unrolled loop's own.
    """

    name: str
    variables: tuple[str, ...]
    body: tuple[CodeNode, ...]


Steps = Mapping[int, Step]
"""Identity of an unrolled loop -> its function, callees first."""


def steps_of(nodes: tuple[CodeNode, ...], function: str) -> Steps:
    """Return the step functions of the loops in `nodes`, the body of C function `function`."""
    steps: dict[int, Step] = {}
    for loop, variables in _unrolled(nodes, ()):
        number = str(len(steps) + 1) if steps else ""
        steps[id(loop)] = Step(f"{function}_step{number}", variables, loop.body)
    return steps


def _unrolled(
    nodes: tuple[CodeNode, ...], around: tuple[str, ...]
) -> Iterator[tuple[CodeLoop, tuple[str, ...]]]:
    """Yield the unrolled loops, inner ones first, with the variables in their bodies."""
    for node in nodes:
        if isinstance(node, CodeBranch):
            yield from _unrolled(node.body, around)
        elif isinstance(node, CodeLoop):
            variables = (*around, node.var)
            yield from _unrolled(node.body, variables)
            if node.copies > 1:
                yield node, variables
