"""Random kernels for the back ends, and the plainest possible reading of the kernel IR.

Kernels are drawn from a seed, so that a failure is reported by one number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from codegen.expr import Expr, clamp, const, less, maximum, minimum, param, select, var
from codegen.kernel import Call, Comment, Guard, Instr, Kernel, Loop, Node
from runtime_sim.isa.fields import HEADER, Field
from runtime_sim.isa.layout import BY_MNEMONIC
from runtime_sim.isa.table import INSTRUCTIONS

PARAMS = ("base", "rows", "step")
_VARIABLES = ("i", "j", "k")
_HEADER_FIELDS = tuple(field for field in HEADER if field.name not in ("opcode", "issue"))
_TEXTS = ("", "plain", "ends */ here", "/* nested", "bits ??/", "naïve\n\tlines", "x" * 150)


@dataclass(frozen=True, slots=True)
class KernelSource:
    """Draws kernels from `random`."""

    random: Random

    def expression(self, names: tuple[str, ...], depth: int = 3) -> Expr:
        """Draw an expression over parameters and the loop variables `names`."""
        pick = self.random
        if depth == 0 or pick.random() < 0.2:
            leaves = [const(pick.randint(-9, 99)), param(pick.choice(PARAMS))]
            return pick.choice([*leaves, *map(var, names)])
        a, b, c = (self.expression(names, depth - 1) for _ in range(3))
        small = pick.randint(1, 7)
        choices = (
            a + b, a - b, a * (small - 3), a // small, a % small, a << small, a & 2 * small,
            minimum(a, b), maximum(a, b), less(a, b), select(a, b, c), a % (param("ring")),
        )  # fmt: skip
        return pick.choice(choices)

    def value(self, field: Field, names: tuple[str, ...]) -> Expr:
        """Draw an expression that stays within the range of a field."""
        if field.choices:
            return const(int(self.random.choice(field.choices)))
        if self.random.random() < 0.7:
            return const(field.minimum + self.random.randint(0, min(3, field.maximum)))
        return clamp(self.expression(names), field.minimum, field.maximum)

    def instruction(self, names: tuple[str, ...]) -> Instr:
        """Draw an instruction over the loop variables `names`."""
        row = self.random.choice(INSTRUCTIONS)
        fields = (*_HEADER_FIELDS, *row.fields)
        return Instr(row.mnemonic, {field.name: self.value(field, names) for field in fields})

    def variation(self, old: Instr, names: tuple[str, ...]) -> Instr:
        """Draw an instruction that differs from `old` in at most one field."""
        field = self.random.choice((*_HEADER_FIELDS, *BY_MNEMONIC[old.mnemonic].fields))
        return Instr(old.mnemonic, {**old.fields, field.name: self.value(field, names)})

    def body(self, names: tuple[str, ...] = (), seen: tuple[Instr, ...] = ()) -> tuple[Node, ...]:
        """Draw instructions that often share fields, guards, loops and comments."""
        nodes: list[Node] = []
        for kind in self.random.choices("INGLC", (3, 4, 1, 2, 1), k=self.random.randint(1, 5)):
            if kind == "G" and len(names) < 3:
                nodes.append(Guard(self.expression(names), self.body(names, seen)))
            elif kind == "L" and len(names) < 3:
                nodes.append(self.loop(names, seen))
            elif kind == "C":
                nodes.append(Comment(self.random.choice(_TEXTS)))
            else:
                known = self.random.choice(seen) if seen and kind == "N" else None
                new = self.variation(known, names) if known else self.instruction(names)
                seen += (new,)
                nodes.append(new)
        return tuple(nodes)

    def loop(self, names: tuple[str, ...], seen: tuple[Instr, ...]) -> Loop:
        """Draw a loop of at most five iterations."""
        variable = self.random.choice([name for name in _VARIABLES if name not in names])
        body = self.body((*names, variable), seen)
        extent, unroll = self.random.randint(0, 5), self.random.choice((1, 1, 1, 2, 3))
        if self.random.random() < 0.4:
            return Loop(variable, minimum(param("rows"), extent), body, unroll)
        return Loop(variable, const(extent), body, self.random.choice((0, unroll, unroll)))

    def entry(self, name: str) -> Kernel:
        """Draw an entry that calls kernels called after `name`, also in loops and guards."""
        nodes: list[Node] = []
        for index in range(self.random.randint(1, 2)):
            text = self.random.choice(_TEXTS)
            kernel = Kernel(f"{name}_{index}", (*PARAMS, "ring"), self.body(), text)
            args = {parameter: const(self.random.randint(-3, 40)) for parameter in PARAMS}
            args["ring"] = const(self.random.randint(1, 9))
            moved = {**args, "base": var("call") * 3 + self.random.randint(-5, 5)}
            guarded = Guard(less(var("call"), 2), (Call(kernel, moved, text),))
            plain = self.instruction(()).substitute(args)
            extent, unroll = self.random.randint(0, 6), self.random.choice((1, 2, 3))
            loop = Loop("call", const(extent), (guarded, plain), unroll)
            nodes += [Call(kernel, args), loop, plain]
        return Kernel(name, (), tuple(nodes))


def random_entry(seed: int, name: str = "entry") -> Kernel:
    """Return the entry that `seed` stands for."""
    return KernelSource(Random(seed)).entry(name)


def interpret(
    nodes: tuple[Node, ...], env: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield mnemonic and field values of every command, one at a time, as the IR reads."""
    for node in nodes:
        if isinstance(node, Instr):
            yield node.mnemonic, {name: int(e.evaluate(env)) for name, e in node.fields.items()}
        elif isinstance(node, Guard):
            if node.condition.evaluate(env):
                yield from interpret(node.body, env)
        elif isinstance(node, Loop):
            for index in range(int(node.extent.evaluate(env))):
                yield from interpret(node.body, {**env, node.var: index})
        elif isinstance(node, Call):
            args = {name: int(expr.evaluate(env)) for name, expr in node.args.items()}
            yield from interpret(node.kernel.body, args)
