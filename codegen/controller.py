"""Controller code: kernel IR after unrolling and hoisting, with the register writes it needs.

The controller of vNPU v1 pays 4 cycles per command, 2 per register it writes, 2 more where the
value depends on a rolled loop variable, and 6 per loop iteration. The code of a loop body that
exceeds the instruction memory is fetched again, from region 0, in every iteration. `emit_c`
prints this code and `assemble` runs it, so both charge the same cycles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from codegen.dataflow import (
    Hoisted,
    HoistedBranch,
    HoistedNode,
    Register,
    Setup,
    State,
    hoist,
    state_after,
)
from codegen.expr import Expr, const, maximum
from codegen.kernel import Call, Comment, Guard, Instr, Kernel, Loop, Node
from codegen.skeleton import Skeleton, has_call, register_values
from codegen.unroll import Branch, Rolled, UnrolledNode, unroll
from runtime_sim.errors import VnpuError
from runtime_sim.isa.cost import CONTROLLER_COST
from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True)
class Write:
    """A store of `expr` to a command register."""

    mnemonic: str
    field: str
    expr: Expr

    @property
    def variable(self) -> bool:
        """Return whether the value depends on a rolled loop variable."""
        return bool(self.expr.names("var"))

    @property
    def cost(self) -> int:
        """Return the controller cycles of the store."""
        extra = CONTROLLER_COST.variable_field if self.variable else 0
        return CONTROLLER_COST.field + extra


@dataclass(frozen=True, slots=True)
class SetRegisters:
    """Stores before a loop, by register; their `cost` in cycles goes to the next command."""

    values: Mapping[Register, Expr]
    cost: int

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the stores."""
        return tuple(Write(*register, expr) for register, expr in self.values.items())


@dataclass(frozen=True, slots=True)
class Issue:
    """A command: the registers it still has to write, then the store that issues it.

    `fields` has every field's expression, including those whose register holds it already;
    `written` names those it has to write, and `cost` is the controller cycles of all these stores.
    """

    mnemonic: str
    fields: Mapping[str, Expr]
    written: tuple[str, ...]
    cost: int

    @property
    def writes(self) -> tuple[Write, ...]:
        """Return the stores but the last."""
        return tuple(Write(self.mnemonic, name, self.fields[name]) for name in self.written)


@dataclass(frozen=True, slots=True)
class LoopPart:
    """`for (var = first; var < limit; var += copies)`; an iteration starts with `cost` cycles."""

    first: Expr
    limit: Expr
    copies: int
    cost: int


@dataclass(frozen=True, slots=True)
class CodeLoop:
    """A loop whose iterations run the body for `copies` values of `var` each, one by one.

    An iteration starts with `cost` cycles. What is left of the extent runs in a second loop, one
    value an iteration, at `rest_cost` cycles. The code holds a body for each copy and, if there may
    be a rest, one for it; all are the same.
    """

    var: str
    extent: Expr
    copies: int
    body: tuple[CodeNode, ...]
    cost: int
    rest_cost: int

    @property
    def parts(self) -> tuple[LoopPart, ...]:
        """Return the loop over the whole iterations and the one over what may be left of them."""
        rest = self.extent % self.copies
        if rest.constant == 0:
            return (LoopPart(const(0), self.extent, self.copies, self.cost),)
        whole = maximum(self.extent - rest, 0)
        return (
            LoopPart(const(0), whole, self.copies, self.cost),
            LoopPart(whole, self.extent, 1, self.rest_cost),
        )


@dataclass(frozen=True, slots=True)
class CodeBranch:
    """`if (condition)`."""

    condition: Expr
    body: tuple[CodeNode, ...]


CodeNode = SetRegisters | Issue | CodeLoop | CodeBranch | Comment | Call


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's controller code. `code_bytes` is its size in instruction memory."""

    name: str
    params: tuple[str, ...]
    body: tuple[CodeNode, ...]
    doc: str
    code_bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """An entry and the distinct kernels that it calls, by name in the order of first call."""

    entry: Code
    kernels: Mapping[str, Code]


def lower_program(entry: Kernel, npu: NpuConfig) -> Program:
    """Lower an entry and every kernel it calls.

    Raises VnpuError as `lower_controller`, and where two kernels of one name differ, a kernel
    calls another, or the entry has parameters.
    """
    if entry.params:
        raise VnpuError(
            f"entry {entry.name} has parameters", seen=", ".join(entry.params), limit="none"
        )
    kernels = called_kernels(entry)
    codes = {name: lower_controller(kernel, npu) for name, kernel in kernels.items()}
    sizes = {name: code.code_bytes for name, code in codes.items()}
    return Program(lower_controller(entry, npu, sizes), MappingProxyType(codes))


def called_kernels(entry: Kernel) -> dict[str, Kernel]:
    """Return the distinct kernels an entry calls; VnpuError where one name has two bodies."""
    kernels: dict[str, Kernel] = {}
    for node in entry.walk():
        if isinstance(node, Call):
            known = kernels.setdefault(node.kernel.name, node.kernel)
            if known is not node.kernel and known != node.kernel:
                raise VnpuError(
                    f"two different kernels are called {known.name!r}",
                    fix="give each shape and schedule a name of its own",
                )
    return kernels


def lower_controller(
    kernel: Kernel, npu: NpuConfig, callee_bytes: Mapping[str, int] | None = None
) -> Code:
    """Unroll, hoist and annotate one kernel.

    `callee_bytes` has the code size of each kernel an entry may call; None refuses calls. Raises
    VnpuError for names that nothing binds, extents that are not parameters and loops that cannot
    be unrolled.
    """
    _check_names(kernel, kernel.body, frozenset(), callee_bytes is not None)
    nodes = unroll(kernel.body, kernel.name)
    if has_call(nodes):
        lowering = _Annotation(npu, callee_bytes or {})
        body, _ = lowering.annotate(hoist(nodes), {})
        return Code(kernel.name, kernel.params, body, kernel.doc, lowering.code_bytes(body))
    body, size = _annotated(Skeleton(nodes), npu)
    return Code(kernel.name, kernel.params, tuple(_filled(body, nodes)), kernel.doc, size)


@lru_cache(maxsize=1024)
def _annotated(skeleton: Skeleton, npu: NpuConfig) -> tuple[tuple[CodeNode, ...], int]:
    """Return the code of one of the kernels of a skeleton, and its size in bytes."""
    lowering = _Annotation(npu, {})
    body, _ = lowering.annotate(hoist(skeleton.nodes), {})
    return body, lowering.code_bytes(body)


def _filled(form: tuple[CodeNode, ...], nodes: tuple[UnrolledNode, ...]) -> Iterator[CodeNode]:
    """Yield code of the form of `form`, the annotation of other nodes of the same skeleton."""
    own = iter(nodes)
    setting: SetRegisters | None = None
    for code in form:
        if isinstance(code, SetRegisters):
            setting = code
            continue
        node = next(own)
        if isinstance(code, Issue) and isinstance(node, Instr):
            yield Issue(code.mnemonic, node.fields, code.written, code.cost)
        elif isinstance(code, CodeLoop) and isinstance(node, Rolled):
            if setting:
                values = register_values(node, tuple(setting.values))
                yield SetRegisters(values, setting.cost)
                setting = None
            body = tuple(_filled(code.body, node.body))
            yield replace(code, extent=node.extent, body=body)
        elif isinstance(code, CodeBranch) and isinstance(node, Branch):
            yield CodeBranch(node.condition, tuple(_filled(code.body, node.body)))
        elif isinstance(node, Comment):
            yield node


@dataclass(frozen=True, slots=True)
class _Annotation:
    npu: NpuConfig
    callee_bytes: Mapping[str, int]

    def annotate(
        self, nodes: tuple[HoistedNode, ...], state: State
    ) -> tuple[tuple[CodeNode, ...], State]:
        """Return code for `nodes` entered in `state`, and the state after them."""
        out: list[CodeNode] = []
        for node in nodes:
            if isinstance(node, Instr):
                values = {(node.mnemonic, name): expr for name, expr in node.fields.items()}
                missing = _missing(values, state)
                cost = CONTROLLER_COST.command + _cost(missing)
                written = tuple(name for _, name in missing)
                out.append(Issue(node.mnemonic, node.fields, written, cost))
            elif isinstance(node, Setup):
                missing = _missing(node.values, state)
                out += [SetRegisters(missing, _cost(missing))] if missing else []
            elif isinstance(node, HoistedBranch):
                out.append(CodeBranch(node.condition, self.annotate(node.body, state)[0]))
            elif isinstance(node, Hoisted):
                out.append(self._loop(node, state))
            else:
                out.append(node)
            state = state_after(node, state)
        return tuple(out), state

    def _loop(self, node: Hoisted, state: State) -> CodeLoop:
        body, _ = self.annotate(node.body, node.entry.apply(state))
        loop = node.loop
        cost, rest_cost = (self._iteration(body, copies) for copies in (loop.copies, 1))
        return CodeLoop(loop.var, loop.extent, loop.copies, body, cost, rest_cost)

    def _iteration(self, body: tuple[CodeNode, ...], copies: int) -> int:
        """Return the cycles that start an iteration whose code is `copies` of `body`."""
        cost, size = CONTROLLER_COST.iteration, self.code_bytes(body, copies)
        if size > self.npu.instruction_memory:
            cost += math.ceil(size / self.npu.memory_of(0).bytes_per_cycle)
        return cost

    def code_bytes(self, nodes: tuple[CodeNode, ...], copies: int = 1) -> int:
        """Return the code size of copies of `nodes`; each kernel called counts once."""
        callees: set[str] = set()
        own = sum(self._node_bytes(node, callees) for node in nodes)
        return copies * own + sum(self.callee_bytes[name] for name in callees)

    def _node_bytes(self, node: CodeNode, callees: set[str]) -> int:
        if isinstance(node, Issue):
            return CONTROLLER_COST.command_bytes + CONTROLLER_COST.field_bytes * len(node.written)
        if isinstance(node, SetRegisters):
            return CONTROLLER_COST.field_bytes * len(node.values)
        if isinstance(node, (CodeLoop, CodeBranch)):
            bodies = sum(part.copies for part in node.parts) if isinstance(node, CodeLoop) else 1
            return bodies * sum(self._node_bytes(child, callees) for child in node.body)
        if isinstance(node, Call):
            callees.add(node.kernel.name)
        return 0


def _missing(values: Mapping[Register, Expr], state: State) -> dict[Register, Expr]:
    return {r: expr for r, expr in values.items() if state.get(r) != expr}


def _cost(values: Mapping[Register, Expr]) -> int:
    return sum(Write(*register, expr).cost for register, expr in values.items())


def _check_names(
    kernel: Kernel, nodes: tuple[Node, ...], bound: frozenset[str], calls: bool
) -> None:
    params = frozenset(kernel.params)
    for node in nodes:
        for expr in _expressions(node):
            if expr.names("var") <= bound and expr.names("param") <= params:
                continue
            unknown = (expr.names("var") - bound) | (expr.names("param") - params)
            raise VnpuError(f"kernel {kernel.name}: nothing binds {', '.join(sorted(unknown))}")
        if isinstance(node, Loop):
            _check_loop(kernel, node, bound)
            _check_names(kernel, node.body, bound | {node.var}, calls)
        elif isinstance(node, Guard):
            _check_names(kernel, node.body, bound, calls)
        elif isinstance(node, Call) and not calls:
            raise VnpuError(f"kernel {kernel.name} calls {node.kernel.name}: only entries may call")


def _expressions(node: Node) -> Iterator[Expr]:
    if isinstance(node, Instr):
        yield from node.fields.values()
    elif isinstance(node, Guard):
        yield node.condition
    elif isinstance(node, Call):
        yield from node.args.values()


def _check_loop(kernel: Kernel, loop: Loop, bound: frozenset[str]) -> None:
    where = f"kernel {kernel.name}: loop {loop.var!r}"
    if loop.var in bound or loop.var in kernel.params:
        raise VnpuError(f"{where} hides another name", fix="rename its variable")
    outside = loop.extent.names("var") | (loop.extent.names("param") - set(kernel.params))
    if outside:
        raise VnpuError(
            f"{where} has an extent that is not made of parameters",
            seen=loop.extent.to_c(), fix="use a guard inside a longer loop",
        )  # fmt: skip
