"""Which command registers hold what: hoisting, and the writes each instruction still needs.

A register is (mnemonic, field); it keeps its value from command to command. What is known about
it is the expression that it holds. The state at kernel entry is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from codegen.expr import Expr
from codegen.kernel import Call, Comment, Instr
from codegen.unroll import Branch, Rolled, UnrolledNode

Register = tuple[str, str]
State = dict[Register, Expr]


@dataclass(frozen=True, slots=True)
class Setup:
    """Registers set before a loop because all its instructions agree on them."""

    values: Mapping[Register, Expr]


@dataclass(frozen=True, slots=True)
class Hoisted:
    """A rolled loop whose body has been hoisted too.

    `entry` is what its passes leave of the state before the loop at the start of each of them.
    """

    loop: Rolled
    body: tuple[HoistedNode, ...]
    entry: Effect
    effect: Effect

    @classmethod
    def of(cls, loop: Rolled, body: tuple[HoistedNode, ...]) -> Hoisted:
        """Return the loop with a body."""
        once = effect_of(body)
        entry = once.maybe(loop.var)
        after = entry.then(once).without(loop.var) if loop.extent.constant else entry
        return cls(loop, body, entry, after)


@dataclass(frozen=True, slots=True)
class HoistedBranch:
    """A branch whose body has been hoisted; `effect` is that of the body, run or not."""

    condition: Expr
    body: tuple[HoistedNode, ...]
    effect: Effect


HoistedNode = Instr | Setup | Hoisted | HoistedBranch | Comment | Call


def hoist(
    nodes: tuple[UnrolledNode, ...], done: frozenset[Register] = frozenset()
) -> tuple[HoistedNode, ...]:
    """Set what a loop never changes before the outermost loop that never changes it.

    A register moves when all instructions of the loop, nested loops included, give it the same
    expression and no variable of those loops is in it. Loops with calls keep everything.
    """
    out: list[HoistedNode] = []
    for node in nodes:
        if isinstance(node, Rolled):
            invariant = {r: e for r, e in _invariants(node).items() if r not in done}
            if invariant:
                out.append(Setup(invariant))
            body = hoist(node.body, done | frozenset(invariant))
            out.append(Hoisted.of(node, body))
        elif isinstance(node, Branch):
            body = hoist(node.body, done)
            out.append(HoistedBranch(node.condition, body, effect_of(body).maybe()))
        else:
            out.append(node)
    return tuple(out)


def _invariants(loop: Rolled) -> State:
    inner = list(_below(loop.body))
    if any(isinstance(node, Call) for node in inner):
        return {}
    bound = {loop.var} | {node.var for node in inner if isinstance(node, Rolled)}
    seen: dict[Register, Expr | None] = {}
    for node in inner:
        if isinstance(node, Instr):
            for name, expr in node.fields.items():
                register = (node.mnemonic, name)
                seen[register] = expr if seen.get(register, expr) == expr else None
    return {r: e for r, e in seen.items() if e is not None and not e.names("var") & bound}


def _below(nodes: tuple[UnrolledNode, ...]) -> Iterator[UnrolledNode]:
    for node in nodes:
        yield node
        if isinstance(node, (Rolled, Branch)):
            yield from _below(node.body)


@dataclass(frozen=True, slots=True)
class Change:
    """What code does to one register: afterwards it holds `expr` (None: unknown).

    With `always` false it does so only if it held `expr` before; else it is unknown.
    """

    expr: Expr | None
    always: bool


_UNKNOWN = Change(None, True)


@dataclass(frozen=True, slots=True)
class Effect:
    """What code does to all registers: unnamed ones stay, or are lost where it `forgets`."""

    changes: Mapping[Register, Change] = field(default_factory=dict)
    forgets: bool = False

    def then(self, later: Effect) -> Effect:
        """Return the effect of this code followed by `later`."""
        if later.forgets:
            return later
        changes = dict(self.changes)
        for register, change in later.changes.items():
            before = changes.get(register, _UNKNOWN if self.forgets else None)
            changes[register] = _compose(before, change)
        return Effect(changes, self.forgets)

    def maybe(self, variable: str | None = None) -> Effect:
        """Return the effect of this code run or not; for a loop, any number of times."""
        changes = {}
        for register, change in self.changes.items():
            lost = change.expr is None or variable in change.expr.names("var")
            changes[register] = _UNKNOWN if lost else Change(change.expr, False)
        return Effect(changes, self.forgets)

    def without(self, variable: str) -> Effect:
        """Return the effect once `variable` is gone."""
        return Effect(
            {
                register: _UNKNOWN
                if change.expr and variable in change.expr.names("var")
                else change
                for register, change in self.changes.items()
            },
            self.forgets,
        )

    def apply(self, state: State) -> State:
        """Return what is known after the code ran in `state`."""
        after = {} if self.forgets else dict(state)
        for register, change in self.changes.items():
            if change.expr is not None and (change.always or after.get(register) == change.expr):
                after[register] = change.expr
            else:
                after.pop(register, None)
        return after


def _compose(first: Change | None, second: Change) -> Change:
    if second.always or first is None:
        return second
    return first if first.expr == second.expr else _UNKNOWN


def state_after(node: HoistedNode, state: State) -> State:
    """Return what is known after one node ran in `state`."""
    values = _values(node)
    if values is not None:
        return {**state, **values}
    return effect(node).apply(state)


def _values(node: HoistedNode) -> Mapping[Register, Expr] | None:
    """Return what a node that always sets its registers sets them to; None for other nodes."""
    if isinstance(node, Instr):
        return {(node.mnemonic, name): expr for name, expr in node.fields.items()}
    return node.values if isinstance(node, Setup) else None


def effect(node: HoistedNode) -> Effect:
    """Return what one node does to the registers."""
    values = _values(node)
    if values is not None:
        return Effect({register: Change(expr, True) for register, expr in values.items()})
    if isinstance(node, (Hoisted, HoistedBranch)):
        return node.effect
    return Effect(forgets=isinstance(node, Call))


def effect_of(nodes: tuple[HoistedNode, ...]) -> Effect:
    """Return what nodes do in sequence."""
    total = Effect()
    for node in nodes:
        total = total.then(effect(node))
    return total
