"""Unrolling: turn the loops of a kernel into loops that stay rolled and copies that do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from codegen.expr import Expr, const, minimum, var
from codegen.kernel import Call, Comment, Guard, Instr, Loop, Node
from runtime_sim.errors import VnpuError


@dataclass(frozen=True, slots=True)
class Rolled:
    """`for (var = 0; var < extent; var += step)`: what is left of a loop after unrolling."""

    var: str
    extent: Expr
    step: int
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
    other loop unrolled by k becomes a loop over the whole multiples of k and one over the rest,
    whose bodies are copies of one form. Raises VnpuError, which names the kernel, for full
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
    if extent is not None and extent <= factor:
        for index in range(extent):
            yield from _copy(loop, const(index), values, kernel)
        return
    rest = loop.extent % factor
    whole = loop.extent - rest
    yield _rolled(loop, whole, factor, var(loop.var), values, kernel)
    if rest.constant != 0:
        # The minimum keeps a negative extent from running the last iterations.
        last = minimum(rest, loop.extent)
        yield _rolled(loop, last, 1, whole + var(loop.var), values, kernel)


def _rolled(
    loop: Loop, extent: Expr, factor: int, index: Expr, values: Values, kernel: str
) -> Rolled:
    copies = (_copy(loop, index + j, values, kernel) for j in range(factor))
    return Rolled(loop.var, extent, factor, tuple(node for copy in copies for node in copy))


def _copy(loop: Loop, index: Expr, values: Values, kernel: str) -> Iterator[UnrolledNode]:
    if index != var(loop.var):
        values = Values({**values.of, loop.var: index})
    return _expand(loop.body, values, kernel)


def _factor(loop: Loop, extent: int | None, kernel: str) -> int:
    """Return how many copies of the body an iteration holds."""
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
