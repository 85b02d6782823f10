"""The kernel IR: loops, guards and instructions whose fields are expressions.

A kernel is printed as C by `emit_c` and turned into commands by `assemble`; both walk the same
controller code (see `controller`), so their streams agree byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from codegen.expr import Expr, ExprLike, as_expr, param
from runtime_sim.isa.layout import BY_MNEMONIC, SLOTS

STANDARD_PARAMS = (
    "row_begin", "row_end", "spm", "acc", "sem", "flags",
    "in_spm", "in_ring", "out_spm", "out_ring",
)  # fmt: skip
"""Every kernel takes these: the output rows to make (at least one), its base addresses in SPM
(bytes) and ACC (elements), its first semaphore, flags, and where a resident input or a kept output
lives (SPM address and ring rows). DRAM bases and scalars such as zero points follow by name."""

FLAG_INPUT_RESIDENT = 1
FLAG_WEIGHTS_LOADED = 2
FLAG_OUTPUT_KEPT = 4


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction: every field of its row has an expression (absent ones are 0)."""

    mnemonic: str
    fields: Mapping[str, Expr]

    def __post_init__(self) -> None:
        """Refuse unknown fields and fill absent ones with 0, in table order."""
        slots = SLOTS[BY_MNEMONIC[self.mnemonic].opcode]
        unknown = sorted(set(self.fields) - set(slots))
        if unknown or {"opcode", "issue"} & set(self.fields):
            raise KeyError(f"{self.mnemonic} has no settable field {unknown or 'opcode/issue'}")
        full = {
            name: as_expr(self.fields.get(name, 0))
            for name in slots
            if name not in ("opcode", "issue")
        }
        object.__setattr__(self, "fields", MappingProxyType(full))

    def substitute(
        self, values: Mapping[str, Expr], known: dict[Expr, Expr] | None = None
    ) -> Instr:
        """Return the instruction with variables replaced; `known`: see `Expr.substitute`."""
        known = {} if known is None else known
        fields = {name: expr.substitute(values, known) for name, expr in self.fields.items()}
        return Instr(self.mnemonic, fields)


@dataclass(frozen=True, slots=True)
class Loop:
    """`for (var = 0; var < extent; ++var)`; the extent reads parameters only.

    `unroll` copies of the body are laid out per iteration (0 = unroll fully; needs a constant
    extent).
    """

    var: str
    extent: Expr
    body: tuple[Node, ...]
    unroll: int = 1


@dataclass(frozen=True, slots=True)
class Guard:
    """`if (condition)`: the body is issued where the condition is not zero."""

    condition: Expr
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """A line of explanation, printed in C and ignored by the assembler."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel call in an entry; `args` has every parameter of the kernel."""

    kernel: Kernel
    args: Mapping[str, Expr]
    label: str = ""

    def __post_init__(self) -> None:
        """Refuse missing and unknown arguments."""
        if set(self.args) != set(self.kernel.params):
            wrong = sorted(set(self.args) ^ set(self.kernel.params))
            raise KeyError(f"call of {self.kernel.name}: arguments missing or unknown: {wrong}")


Node = Instr | Loop | Guard | Comment | Call


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel function: `params` in order, then the body. An entry is one with no parameters."""

    name: str
    params: tuple[str, ...]
    body: tuple[Node, ...]
    doc: str = ""

    def walk(self) -> Iterator[Node]:
        """Yield every node, outermost first."""
        yield from walk(self.body)


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Yield every node below `nodes`, outermost first; called kernels are not entered."""
    for node in nodes:
        yield node
        if isinstance(node, (Loop, Guard)):
            yield from walk(node.body)


def instr(mnemonic: str, *, wait: ExprLike = 0, post: ExprLike = 0, **fields: ExprLike) -> Instr:
    """Build an instruction. `wait` and `post` are masks relative to the kernel's semaphore base."""
    values = {name: as_expr(value) for name, value in fields.items()}
    values["wait"] = as_expr(wait) << param("sem")
    values["post"] = as_expr(post) << param("sem")
    return Instr(mnemonic, values)


def command(mnemonic: str, **fields: int) -> Instr:
    """Build an instruction of constants, for entries (FENCE, END)."""
    return Instr(mnemonic, {name: as_expr(value) for name, value in fields.items()})


def spm_fields(
    prefix: str,
    addr: ExprLike,
    row_stride: ExprLike,
    pixel_stride: ExprLike,
    ring_rows: ExprLike = 0,
    ring_start: ExprLike = 0,
) -> dict[str, ExprLike]:
    """Return the fields of a scratchpad operand as keyword arguments for `instr`."""
    return {
        f"{prefix}_addr": addr,
        f"{prefix}_row_stride": row_stride,
        f"{prefix}_pixel_stride": pixel_stride,
        f"{prefix}_ring_rows": ring_rows,
        f"{prefix}_ring_start": ring_start,
    }
