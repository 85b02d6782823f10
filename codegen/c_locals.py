"""Local variables of printed kernels: an expression that is used again gets a name.

It is declared at the start of the innermost block that holds all its uses and binds its variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from codegen.controller import Code, CodeBranch, CodeLoop, CodeNode, Issue, SetRegisters
from codegen.expr import Expr
from codegen.kernel import Call

MIN_OPERATIONS = 2
"""Shorter expressions are clearer than a name."""

Declarations = Mapping[int, tuple[tuple[Expr, str], ...]]
"""Identity of a block's tuple of nodes -> what it declares, in order."""


@dataclass(frozen=True, slots=True)
class _Block:
    """A block, by the identity of its nodes; `var` is the loop variable that it binds, if any."""

    identity: int
    var: str | None = None


_Path = tuple[_Block, ...]
_Key = tuple[Expr, _Block]


@dataclass(slots=True)
class _Uses:
    """How often an expression would be printed, and the blocks around all its uses."""

    path: _Path
    count: int = 0

    def widen(self, path: _Path) -> None:
        """Leave the blocks that do not hold `path` too."""
        while self.path != path[: len(self.path)]:
            self.path = self.path[:-1]


@dataclass(frozen=True, slots=True)
class _Census:
    """Counts uses. Equal expressions whose variables are bound by different loops differ."""

    uses: dict[_Key, _Uses] = field(default_factory=dict)

    def add(self, expr: Expr, path: _Path) -> None:
        """Count a use of `expr` and, once for each place they are printed in, of its operands."""
        if expr.is_leaf:
            return
        key = (expr, _binder(expr, path))
        first = key not in self.uses
        use = self.uses.setdefault(key, _Uses(path))
        use.count += 1
        if first or not _worth_a_name(expr):
            use.widen(path)
            for arg in expr.args:
                self.add(arg, path)
        else:
            self.widen(expr, path)

    def widen(self, expr: Expr, path: _Path) -> None:
        """Note that a named expression, with all that it is made of, is used in `path` too."""
        if not expr.is_leaf:
            self.uses[expr, _binder(expr, path)].widen(path)
            for arg in expr.args:
                self.widen(arg, path)


def choose_locals(code: Code, variables: Collection[str] = ()) -> Declarations:
    """Return the names that each block of `code` declares; `variables` are bound outside of it."""
    census = _Census()
    order: dict[_Block, int] = {}
    for expr, path in _printed(code.body, (_Block(id(code.body)),)):
        for block in path:
            order.setdefault(block, len(order))
        census.add(expr, path)
    named = [(e, u) for (e, _), u in census.uses.items() if u.count > 1 and _worth_a_name(e)]
    named.sort(key=lambda item: (order[item[1].path[-1]], item[0].operations))
    taken = {*code.params, *variables} | _variables(code.body)
    numbers: Counter[str] = Counter()
    declarations: dict[int, tuple[tuple[Expr, str], ...]] = {}
    for expr, use in named:
        identity = use.path[-1].identity
        declared = (expr, _new_name(expr, numbers, taken))
        declarations[identity] = (*declarations.get(identity, ()), declared)
    return declarations


def _printed(nodes: tuple[CodeNode, ...], path: _Path) -> Iterator[tuple[Expr, _Path]]:
    for node in nodes:
        if isinstance(node, (Issue, SetRegisters)):
            yield from ((write.expr, path) for write in node.writes)
        elif isinstance(node, CodeLoop):
            yield from ((e, path) for part in node.parts for e in (part.first, part.limit))
            if node.copies == 1:  # else it is a function of its own
                yield from _printed(node.body, (*path, _Block(id(node.body), node.var)))
        elif isinstance(node, CodeBranch):
            yield node.condition, path
            yield from _printed(node.body, (*path, _Block(id(node.body))))
        elif isinstance(node, Call):
            yield from ((expr, path) for expr in node.args.values())


def _binder(expr: Expr, path: _Path) -> _Block:
    """Return the innermost block of `path` that binds a variable of the expression."""
    variables = expr.names("var")
    return next((block for block in reversed(path) if block.var in variables), path[0])


@lru_cache(maxsize=1 << 16)
def _worth_a_name(expr: Expr) -> bool:
    """Return whether a name may stand for an expression; asked at each of its many uses."""
    is_condition = expr.op == "lt" or (
        expr.op == "select" and all(a.is_leaf for a in expr.args[1:])
    )
    return expr.operations >= MIN_OPERATIONS and not is_condition and _always_defined(expr)


def _always_defined(expr: Expr) -> bool:
    """Return whether C may evaluate the expression where the kernel would not have used it."""
    if expr.is_leaf:
        return True
    if expr.op in ("div", "mod") and not _positive(expr.args[1]):
        return False
    if expr.op == "shl" and expr.args[1].constant is None:
        return False
    return all(_always_defined(arg) for arg in expr.args)


def _positive(divisor: Expr) -> bool:
    """Return whether an expression is a positive constant, or at least one."""
    candidates = divisor.args if divisor.op == "max" else (divisor,)
    return any((candidate.constant or 0) > 0 for candidate in candidates)


def _variables(nodes: tuple[CodeNode, ...]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, CodeLoop):
            found |= {node.var} | _variables(node.body)
        elif isinstance(node, CodeBranch):
            found |= _variables(node.body)
    return found


def _new_name(expr: Expr, numbers: Counter[str], taken: set[str]) -> str:
    """Return a new name that starts with a variable or parameter of the expression."""
    stem = next(iter(sorted(expr.names("var")) or sorted(expr.names("param"))))
    while True:
        numbers[stem] += 1
        name = f"{stem}_{numbers[stem]}"
        if name not in taken:
            return name
