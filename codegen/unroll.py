"""Unrolling: lay out short loops copy by copy, and note how many copies the others hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from codegen.expr import Expr, const
from codegen.kernel import Call, Comment, Guard, Instr, Loop, Node
from runtime_sim.errors import VnpuError


@dataclass(frozen=True, slots=True)
class Rolled:
    """A loop that stays: an iteration runs the body for `copies` values of `var`, one by one.

    What that leaves of the extent runs one value an iteration.
    """

    var: str
    extent: Expr
    copies: int
    body: tuple[UnrolledNode, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A guard whose condition is not a constant."""

    condition: Expr
    body: tuple[UnrolledNode, ...]


UnrolledNode = Instr | Rolled | Branch | Comment | Call


@dataclass(frozen=True, slots=True)
class Values:
    """What loop variables stand for in a copy of a body, and what that makes of expressions."""

    of: Mapping[str, Expr]
    known: dict[Expr, Expr] = field(default_factory=dict)

    def put(self, expr: Expr) -> Expr:
        """Return the expression with the variables replaced."""
        return expr.substitute(self.of, self.known)


def unroll(nodes: tuple[Node, ...], kernel: str) -> tuple[UnrolledNode, ...]:
    """Return `nodes` with loops unrolled as they ask and constant guards decided.

    A loop of one iteration is laid out always, as is one of no more iterations than its factor. Any
    other keeps one body for all its copies. Raises VnpuError, which names the kernel, for full
    unrolling of a loop whose extent is made of parameters, and for a negative factor.
    """
    return tuple(_expand(nodes, Values({}), kernel))


def _expand(nodes: tuple[Node, ...], values: Values, kernel: str) -> Iterator[UnrolledNode]:
    for node in nodes:
        if isinstance(node, Comment):
            yield node
        elif isinstance(node, Instr):
            yield node.substitute(values.of, values.known) if values.of else node
        elif isinstance(node, Guard):
            yield from _guard(node, values, kernel)
        elif isinstance(node, Loop):
            yield from _loop(node, values, kernel)
        else:
            args = {name: values.put(expr) for name, expr in node.args.items()}
            yield Call(node.kernel, args, node.label)


def _guard(guard: Guard, values: Values, kernel: str) -> Iterator[UnrolledNode]:
    condition = values.put(guard.condition)
    if condition.constant == 0:
        return
    if condition.constant is not None:
        yield from _expand(guard.body, values, kernel)
        return
    body = tuple(_expand(guard.body, values, kernel))
    if body:
        yield Branch(condition, body)


def _loop(loop: Loop, values: Values, kernel: str) -> Iterator[UnrolledNode]:
    extent = loop.extent.constant
    factor = _factor(loop, extent, kernel)
    if extent is None or extent > factor:
        body = tuple(_expand(loop.body, values, kernel))
        yield Rolled(loop.var, loop.extent, factor, body)
        return
    for index in range(extent):
        copy = Values({**values.of, loop.var: const(index)})
        yield from _expand(loop.body, copy, kernel)


def _factor(loop: Loop, extent: int | None, kernel: str) -> int:
    """Return how many copies of the body an iteration of the loop holds."""
    if loop.unroll < 0:
        raise VnpuError(
            f"kernel {kernel}: loop {loop.var!r} has a negative unroll factor",
            seen=loop.unroll,
            limit="0 (fully) or a factor",
            fix="choose another schedule",
        )
    if extent is None and loop.unroll == 0:
        raise VnpuError(
            f"kernel {kernel}: loop {loop.var!r} cannot be unrolled fully",
            seen=loop.extent.to_c(),
            limit="a constant extent",
            fix="set unroll = 1",
        )
    return loop.unroll or max(extent or 0, 1)
