"""Assemble kernel IR into a command stream, whole loop nests at once in NumPy.

Every instruction is evaluated once over the iteration space of the loops around it. A block of
controller code is a line of events (an iteration starts, registers are set, a command is issued)
whose positions are affine in the loop indices; the running sum of the events' cycles, taken at
the commands, gives each command's `issue` field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.controller import (
    Code,
    CodeBranch,
    CodeLoop,
    CodeNode,
    Issue,
    Program,
    SetRegisters,
    lower_controller,
    lower_program,
)
from codegen.expr import Expr
from codegen.kernel import Call, Comment, Kernel
from runtime_sim.isa.codec import EncodingError, Words, encode_columns
from runtime_sim.isa.fields import COMMAND_WORDS
from runtime_sim.npu import NpuConfig

Env = Mapping[str, Any]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Segment:
    """The commands [first, last) that one call of an entry issued."""

    label: str
    kernel: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Assembled:
    """A command stream, shape (commands, 16) uint64, and the calls it came from."""

    words: Words
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Issued:
    """An instruction of the code and the commands it becomes.

    `rows` are their positions in the block, `gaps` their `issue` fields.
    """

    rows: Indices
    gaps: Indices
    site: _Site

    @property
    def mnemonic(self) -> str:
        """Return the instruction's name."""
        return self.site.issue.mnemonic

    @property
    def fields(self) -> Mapping[str, Expr]:
        """Return the fields' expressions, but for opcode and issue."""
        return self.site.issue.fields

    def value(self, name: str) -> Any:
        """Return a field's values: an int, or an array with one entry per command."""
        return self.site.value(self.fields[name])


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of the stream before encoding: `count` commands, and the cycles after the last."""

    kernel: str
    count: int
    issued: tuple[Issued, ...]
    rest: int


def assemble(entry: Kernel, npu: NpuConfig) -> Assembled:
    """Assemble an entry and the kernels it calls.

    Raises EncodingError, which names kernel and field, where a value or the controller time
    before a command does not fit its field; VnpuError as `lower_program`.
    """
    return assemble_program(lower_program(entry, npu))


def assemble_program(program: Program) -> Assembled:
    """Assemble code that is lowered already. Raises EncodingError as `assemble`."""
    blocks, segments = lay_out_program(program)
    words = np.concatenate([_encode_block(b) for b in blocks]) if blocks else _no_commands()
    return Assembled(words, segments)


def lay_out_program(program: Program) -> tuple[list[Block], tuple[Segment, ...]]:
    """Return the stream of lowered code block by block before its commands are encoded."""
    stream = _Stream(program)
    stream.run(program.entry.body, {})
    return stream.blocks, tuple(stream.segments)


def assemble_kernel(kernel: Kernel, args: Mapping[str, int], npu: NpuConfig) -> Words:
    """Assemble one kernel for given arguments; returns (commands, 16) uint64.

    Raises as `assemble`.
    """
    code = lower_controller(kernel, npu)
    env = {name: int(args[name]) for name in code.params}
    return _encode_block(_lay_out(code.name, code.body, env, 0))


def _no_commands() -> Words:
    return np.zeros((0, COMMAND_WORDS), np.uint64)


@dataclass(slots=True)
class _Stream:
    """The stream of an entry so far; `pending` cycles go to its next command."""

    program: Program
    blocks: list[Block] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    commands: int = 0
    pending: int = 0

    def run(self, nodes: tuple[CodeNode, ...], env: Env) -> None:
        """Append the commands of entry code: calls one by one, what is between them in blocks."""
        plain: list[CodeNode] = []
        for node in nodes:
            if not _has_call(node):
                plain.append(node)
                continue
            self._append(self.program.entry, tuple(plain), env)
            plain.clear()
            self._run_calls(node, env)
        self._append(self.program.entry, tuple(plain), env)

    def _run_calls(self, node: CodeNode, env: Env) -> None:
        if isinstance(node, Call):
            self._call(node, env)
        elif isinstance(node, CodeBranch):
            if node.condition.evaluate(env):
                self.run(node.body, env)
        elif isinstance(node, CodeLoop):
            for index, cost in enumerate(_iteration_costs(node, env)):
                self.pending += int(cost)
                self.run(node.body, {**env, node.var: index})

    def _call(self, call: Call, env: Env) -> None:
        code = self.program.kernels[call.kernel.name]
        first = self.commands
        self._append(code, code.body, {n: int(e.evaluate(env)) for n, e in call.args.items()})
        self.segments.append(Segment(call.label or code.name, code.name, first, self.commands))

    def _append(self, code: Code, nodes: tuple[CodeNode, ...], env: Env) -> None:
        if not nodes:
            return
        block = _lay_out(code.name, nodes, env, self.pending)
        self.pending = block.rest
        self.blocks.append(block)
        self.commands += block.count


def _has_call(node: CodeNode) -> bool:
    if isinstance(node, (CodeLoop, CodeBranch)):
        return any(_has_call(child) for child in node.body)
    return isinstance(node, Call)


@dataclass(frozen=True, slots=True)
class _Scope:
    """Values of parameters and loop variables, and of the expressions evaluated under them."""

    env: Env
    known: dict[int, Any] = field(default_factory=dict)

    def value(self, expr: Expr) -> Any:
        """Return an expression's value."""
        return expr.evaluate(self.env, self.known)


@dataclass(frozen=True, slots=True)
class _Site:
    """An instruction at the event positions where it is issued; `keep` selects them."""

    issue: Issue
    positions: Indices
    shape: tuple[int, ...]
    scope: _Scope
    keep: Mask | None

    def value(self, expr: Expr) -> Any:
        """Return the value of a field at every position, or an int."""
        value = self.scope.value(expr)
        if isinstance(value, np.ndarray) and value.ndim:
            spread = value if value.shape == self.shape else np.broadcast_to(value, self.shape)
            return spread.reshape(-1) if self.keep is None else spread[self.keep]
        return value


def _lay_out(kernel: str, nodes: tuple[CodeNode, ...], env: Env, pending: int) -> Block:
    """Return the commands of `nodes`; `pending` cycles of earlier code go to the first."""
    layout = _Layout(kernel, env, _depth(nodes), np.zeros(_events(nodes, env), np.int64))
    origin = np.zeros((1,) * layout.depth, np.int64)
    sites = list(layout.place(nodes, origin, _Scope(env), None))
    issued = np.zeros(len(layout.cycles), bool)
    for site in sites:
        issued[site.positions] = True
    clock = np.cumsum(layout.cycles)
    ends = clock[issued]
    total = pending + int(clock[-1] if clock.size else 0)
    if not ends.size:
        return Block(kernel, 0, (), total)
    rows = np.cumsum(issued) - 1
    gaps = np.diff(ends, prepend=-pending)
    indices = (rows[site.positions] for site in sites)
    found = tuple(
        Issued(index, gaps[index], site) for index, site in zip(indices, sites, strict=True)
    )
    return Block(kernel, len(ends), found, total - pending - int(ends[-1]))


def _encode_block(block: Block) -> Words:
    words = np.empty((block.count, COMMAND_WORDS), np.uint64)
    for issued in block.issued:
        words[issued.rows] = _encode(block.kernel, issued)
    return words


def _encode(kernel: str, issued: Issued) -> Words:
    values = {name: issued.value(name) for name in issued.fields}
    try:
        return encode_columns(issued.mnemonic, len(issued.gaps), {"issue": issued.gaps, **values})
    except EncodingError as error:
        raise EncodingError(
            f"kernel {kernel}: {error.what}", seen=error.seen, limit=error.limit, fix=error.fix
        ) from error


def _depth(nodes: tuple[CodeNode, ...]) -> int:
    inner = (
        _depth(n.body) + isinstance(n, CodeLoop)
        for n in nodes
        if isinstance(n, (CodeLoop, CodeBranch))
    )
    return max(inner, default=0)


def _events(nodes: tuple[CodeNode, ...], env: Env) -> int:
    return sum(_node_events(node, env) for node in nodes)


def _node_events(node: CodeNode, env: Env) -> int:
    if isinstance(node, CodeLoop):
        return _passes(node, env) * (1 + _events(node.body, env))
    if isinstance(node, CodeBranch):
        return _events(node.body, env)
    return 0 if isinstance(node, Comment) else 1


def _passes(loop: CodeLoop, env: Env) -> int:
    return max(0, int(loop.extent.evaluate(env)))


def _iteration_costs(loop: CodeLoop, env: Env) -> Indices:
    """Return the cycles before each pass of a loop's body: an iteration's at its first."""
    costs = np.zeros(_passes(loop, env), np.int64)
    for part in loop.parts:
        first, limit = (max(0, int(expr.evaluate(env))) for expr in (part.first, part.limit))
        costs[first : limit : part.copies] = part.cost
    return costs


@dataclass(frozen=True, slots=True)
class _Layout:
    """Places events on a line; `cycles` collects what each of them costs."""

    kernel: str
    params: Env
    depth: int
    cycles: Indices

    def place(
        self,
        nodes: tuple[CodeNode, ...],
        base: Indices,
        scope: _Scope,
        mask: Mask | None,
        level: int = 0,
    ) -> Iterator[_Site]:
        """Place `nodes` from event `base` on, an array over the loops entered so far."""
        offset = 0
        for node in nodes:
            here = base + offset if offset else base
            if isinstance(node, CodeLoop):
                yield from self._loop(node, here, scope, mask, level)
            elif isinstance(node, CodeBranch):
                yield from self._branch(node, here, scope, mask, level)
            elif isinstance(node, (Issue, SetRegisters)):
                keep = None if mask is None else np.broadcast_to(mask, here.shape)
                positions = here.reshape(-1) if keep is None else here[keep]
                self.cycles[positions] = node.cost
                if isinstance(node, Issue) and positions.size:
                    yield _Site(node, positions, here.shape, scope, keep)
            offset += _node_events(node, self.params)

    def _loop(
        self, loop: CodeLoop, base: Indices, scope: _Scope, mask: Mask | None, level: int
    ) -> Iterator[_Site]:
        costs = _iteration_costs(loop, self.params)
        axis = [1] * self.depth
        axis[level] = len(costs)
        steps = np.arange(len(costs), dtype=np.int64).reshape(axis)
        starts = base + steps * (1 + _events(loop.body, self.params))
        costs = np.broadcast_to(costs.reshape(axis), starts.shape)
        if mask is None:
            self.cycles[starts] = costs
        else:
            keep = np.broadcast_to(mask, starts.shape)
            self.cycles[starts[keep]] = costs[keep]
        inside = _Scope({**scope.env, loop.var: steps})
        yield from self.place(loop.body, starts + 1, inside, mask, level + 1)

    def _branch(
        self, branch: CodeBranch, base: Indices, scope: _Scope, mask: Mask | None, level: int
    ) -> Iterator[_Site]:
        taken = np.asarray(scope.value(branch.condition)) != 0
        if taken.ndim:
            yield from self.place(
                branch.body, base, scope, taken if mask is None else mask & taken, level
            )
        elif taken:
            yield from self.place(branch.body, base, scope, mask, level)
