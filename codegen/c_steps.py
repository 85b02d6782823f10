"""Unrolled loops in C: the copies of a body become calls of one function of the loop variable.

The copies that unrolling lays out say the same of t, t + 1 and so on, the loop over the rest of the
iterations too. Printed once as a function, a kernel stays as short as it is without unrolling. The
function is C's only: the commands and their cycles are those of the copies, as if it were inlined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.controller import Code, CodeBranch, CodeLoop, CodeNode, Issue, SetRegisters, StepCall
from codegen.expr import Expr, var
from codegen.kernel import Call
from codegen.unroll import Values

MIN_COMMANDS = 2
"""Shorter bodies are clearer as copies."""


@dataclass(frozen=True, slots=True)
class Step:
    """The body of an unrolled loop as a function of the loop's variable."""

    name: str
    var: str
    body: tuple[CodeNode, ...]


def share_steps(code: Code) -> tuple[Code, tuple[Step, ...]]:
    """Return `code` with the copies in its outermost loops as calls, and the functions called.

    A loop stays as it is where its copies differ in form, as those with a loop inside may.
    """
    steps: list[Step] = []
    body: list[CodeNode] = []
    for node in code.body:
        if isinstance(node, CodeLoop):
            rest = _calls_for_rest(node, steps, body)
            node = rest or _calls_for_copies(node, steps, code.name) or node
        body.append(node)
    return replace(code, body=tuple(body)), tuple(steps)


def _calls_for_copies(loop: CodeLoop, steps: list[Step], kernel: str) -> CodeLoop | None:
    """Return a loop with calls instead of copies, and add their function; None if they differ."""
    size, odd = divmod(len(loop.body), loop.step)
    if loop.step == 1 or odd or _commands(loop.body[:size]) < MIN_COMMANDS:
        return None
    first = loop.body[:size]
    indices = [var(loop.var) + copy for copy in range(loop.step)]
    for copy, index in enumerate(indices):
        if _form(first, loop.var, index) != _form(loop.body[copy * size : (copy + 1) * size]):
            return None
    number = str(len(steps) + 1) if steps else ""
    step = Step(f"{kernel}_step{number}", loop.var, first)
    steps.append(step)
    return replace(loop, body=tuple(StepCall(step.name, index) for index in indices))


def _calls_for_rest(loop: CodeLoop, steps: list[Step], before: list[CodeNode]) -> CodeLoop | None:
    """Return the loop over the rest of a shared loop's iterations with a call as its body."""
    whole = before[-1] if before else None
    if not isinstance(whole, CodeLoop) or not steps or loop.step != 1 or loop.var != whole.var:
        return None
    if not any(isinstance(node, StepCall) for node in whole.body):
        return None
    step, index = steps[-1], whole.extent + var(loop.var)
    if _form(step.body, step.var, index) != _form(loop.body):
        return None
    return replace(loop, body=(StepCall(step.name, index),))


def _commands(nodes: tuple[CodeNode, ...]) -> int:
    """Return how many commands are issued in the text of nodes."""
    inner = (node.body for node in nodes if isinstance(node, (CodeBranch, CodeLoop)))
    return sum(isinstance(node, Issue) for node in nodes) + sum(map(_commands, inner))


def _form(
    nodes: tuple[CodeNode, ...], variable: str = "", index: Expr | None = None
) -> tuple[object, ...]:
    """Return all that is printed of nodes, with `index` in place of `variable`."""
    values = Values({variable: index} if index is not None else {})
    return tuple(part for node in nodes for part in _node_form(node, values))


def _node_form(node: CodeNode, values: Values) -> Iterator[object]:
    yield type(node)
    if isinstance(node, Issue):
        yield node.mnemonic, node.cost
        yield tuple((name, values.put(node.fields[name])) for name in node.written)
    elif isinstance(node, SetRegisters):
        yield node.cost, tuple((r, values.put(expr)) for r, expr in node.values.items())
    elif isinstance(node, CodeLoop):
        yield node.var, node.step, node.cost, values.put(node.extent)
        yield tuple(part for child in node.body for part in _node_form(child, values))
    elif isinstance(node, CodeBranch):
        yield values.put(node.condition)
        yield tuple(part for child in node.body for part in _node_form(child, values))
    elif isinstance(node, Call):
        yield node.kernel.name, node.label
        yield tuple((name, values.put(expr)) for name, expr in node.args.items())
    else:
        yield node
