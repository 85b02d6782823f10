"""Which expressions get a name in C, where they are declared, and which never do."""

from __future__ import annotations

from codegen.emit_c import emit_c
from codegen.expr import Expr, ExprLike, as_expr, const, less, maximum, minimum, param, select, var
from codegen.kernel import Call, Guard, Instr, Kernel, Loop, Node
from runtime_sim.npu import load
from tests.codegen.streams import check_same_streams

NPU = load("vnpu-256")
N, X, Y = param("n"), var("x"), var("y")


def count(**fields: ExprLike) -> Instr:
    return Instr("COUNTER", {name: as_expr(value) for name, value in fields.items()})


def printed(*body: Node, n: int = 5) -> str:
    """Return the body of the kernel in C, after checking that it gives the right stream."""
    call = Call(Kernel("kernel", ("n",), body), {"n": const(n)})
    entry = Kernel("entry", (), (call,))
    check_same_streams({"net": entry}, NPU)
    text = emit_c(entry, NPU, "net")
    return text[text.index("static void kernel(") : text.index("int32_t net_emit")]


def twice(expr: Expr) -> tuple[Instr, Instr]:
    """Return two instructions that write the expression, so that both print it."""
    return count(id=expr), Instr("FENCE", {"wait": expr})


def test_an_expression_printed_twice_is_named_where_its_variable_lives() -> None:
    text = printed(Loop("x", N, twice((X + 1) * 3)))
    assert "VNPU_ITERATION(6);\n        const int64_t x_1 = (x + 1) * 3;\n" in text
    assert text.count("(x + 1) * 3") == 1


def test_short_expressions_and_conditions_are_not_named() -> None:
    assert "const int64_t" not in printed(*twice(N + 1), *twice(less(N, 3) + 0))
    assert "const int64_t" not in printed(*twice(select(N & 1, 4, 5)))


def test_a_part_of_a_named_expression_is_not_named_for_that_alone() -> None:
    text = printed(*twice(minimum(minimum(N + 1, 9) * 2, 12)))
    assert text.count("const int64_t") == 1
    assert "n_1 = vnpu_min(vnpu_min(a->n + 1, 9) * 2, 12)" in text


def test_larger_names_are_made_of_smaller_ones() -> None:
    part = (N + 1) * 2
    text = printed(*twice(part), *twice(minimum(part, 9) + 1))
    assert "const int64_t n_1 = (a->n + 1) * 2, n_2 = vnpu_min(n_1, 9) + 1;" in text


def test_a_name_is_declared_in_the_innermost_block_that_holds_its_uses() -> None:
    text = printed(Loop("x", N, (Guard(less(1, X), twice(X * 3 + N)), count(id=9))))
    assert "if (1 < x) {\n            const int64_t x_1 = x * 3 + a->n;\n" in text


def test_loops_of_one_variable_name_declare_their_own() -> None:
    loop = Loop("x", N, twice(X * 3 + 1))
    once = Loop("x", N, (count(id=X * 3 + 1),))
    text = printed(loop, loop, once)
    assert text.count("= x * 3 + 1") == 2
    assert "VAR(COUNTER, id, x * 3 + 1)" in text


def test_names_do_not_collide() -> None:
    text = printed(Loop("x", N, (*twice(X * 3 + 1), Loop("x_1", N, (count(id=var("x_1")),)))))
    assert "const int64_t x_2 = x * 3 + 1;" in text


def test_a_division_that_a_guard_protects_stays_behind_it() -> None:
    ring = (N + 7) % N
    text = printed(Guard(less(0, N), twice(ring + 2)), count(id=select(N, ring, 1)), n=0)
    assert "const int64_t" not in text


def test_a_branch_alone_in_another_shares_its_condition() -> None:
    text = printed(Loop("x", N, (Guard(less(X, 3), (Guard(N & 4, (count(id=X),)),)),)))
    assert "if (x < 3 && (a->n & 4) != 0) {" in text


def test_a_chosen_condition_prints_as_conditions() -> None:
    text = printed(Guard(select(N & 1, 0, less(N, 9)), (count(),)), n=4)
    assert "if ((a->n & 1) == 0 && a->n < 9) {" in text


def test_long_lines_wrap() -> None:
    long = N
    for index in range(30):
        long = maximum(long + index, minimum(long, index)) if index < 3 else long + N * index
    text = printed(count(id=minimum(long, 99)))
    assert max(map(len, text.splitlines())) <= 100
