"""What the controller code of a kernel depends on, apart from the values of its expressions.

Which registers a command still has to write follows from which expressions are equal and which
loop variables they read, not from what they say. Schedules that differ in tile sizes mostly agree
in that: their code is annotated once and then only filled with their own expressions.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.dataflow import Register
from codegen.expr import Expr
from codegen.kernel import Call, Instr
from codegen.unroll import Branch, Rolled, UnrolledNode


class Skeleton:
    """Unrolled nodes that compare equal where their controller code has the same form."""

    __slots__ = ("_hash", "_key", "nodes")

    def __init__(self, nodes: tuple[UnrolledNode, ...]) -> None:
        """Number the distinct expressions of `nodes`; they must call no kernel."""
        numbers: dict[Expr, int] = {}
        form = tuple(_form(node, numbers) for node in nodes)
        self.nodes = nodes
        self._key = (form, tuple(expr.names("var") for expr in numbers))
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Skeleton) and self._key == other._key


def has_call(nodes: tuple[UnrolledNode, ...]) -> bool:
    """Return whether a kernel is called below `nodes`."""
    return any(
        has_call(node.body) if isinstance(node, (Rolled, Branch)) else isinstance(node, Call)
        for node in nodes
    )


def _form(node: UnrolledNode, numbers: dict[Expr, int]) -> tuple[object, ...]:
    if isinstance(node, Instr):
        ids = [numbers.setdefault(expr, len(numbers)) for expr in node.fields.values()]
        return (node.mnemonic, *ids)
    if isinstance(node, Rolled):
        body = tuple(_form(child, numbers) for child in node.body)
        return ("for", node.var, node.copies, bool(node.extent.constant), body)
    if isinstance(node, Branch):
        return ("if", tuple(_form(child, numbers) for child in node.body))
    return ("comment",)


def register_values(node: Rolled, registers: tuple[Register, ...]) -> dict[Register, Expr]:
    """Return what a loop's commands set registers to, for registers on which all of them agree."""
    first: dict[str, Instr] = {}
    for instr in _instructions(node.body):
        first.setdefault(instr.mnemonic, instr)
    return {(mnemonic, name): first[mnemonic].fields[name] for mnemonic, name in registers}


def _instructions(nodes: tuple[UnrolledNode, ...]) -> Iterator[Instr]:
    for node in nodes:
        if isinstance(node, Instr):
            yield node
        elif isinstance(node, (Rolled, Branch)):
            yield from _instructions(node.body)
