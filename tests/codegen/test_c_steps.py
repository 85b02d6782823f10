"""The copies of an unrolled loop are printed once, as a function of the loop's variable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen.emit_c import emit_c
from codegen.expr import Expr, ExprLike, as_expr, const, less, param, var
from codegen.kernel import Call, Comment, Guard, Instr, Kernel, Loop, Node
from runtime_sim.npu import load
from tests.codegen.streams import check_same_streams

NPU = load("vnpu-256")
N, X, Y = param("n"), var("x"), var("y")


def count(id: ExprLike) -> Instr:
    return Instr("COUNTER", {"id": as_expr(id)})


def fence(wait: ExprLike) -> Instr:
    return Instr("FENCE", {"wait": as_expr(wait)})


def printed(*body: Node, n: int = 7, params: bool = True) -> str:
    """Return the kernel in C, after checking that it gives the right stream."""
    arguments = {"n": const(n)} if params else {}
    entry = Kernel("entry", (), (Call(Kernel("kernel", tuple(arguments), body), arguments),))
    check_same_streams({"net": entry}, NPU)
    text = emit_c(entry, NPU, "net")
    return text[: text.index("int32_t net_emit")]


def pair(index: Expr) -> tuple[Instr, Instr]:
    return count(index * 3), fence(less(index, N))


@pytest.mark.parametrize("n", [-9, -1, 0, 1, 4, 7, 9])
def test_copies_and_the_rest_call_one_function(n: int) -> None:
    text = printed(Loop("x", N, pair(X), unroll=4), n=n)
    assert text.count("vnpu_counter(vnpu);") == text.count("vnpu_fence(vnpu);") == 1
    assert "static void kernel_step(vnpu_t *vnpu, const struct kernel_args *a, int64_t x)" in text
    for index in ("x + 1", "x + 2", "x + 3"):
        assert text.count(f"        kernel_step(vnpu, a, {index});\n") == 1
    assert text.count("        kernel_step(vnpu, a, x);\n") == 2
    assert "for (int64_t x = n_1; x < a->n; ++x) {" in text


def test_a_whole_number_of_copies_leaves_no_rest() -> None:
    text = printed(Loop("x", const(6), pair(X), unroll=2))
    assert text.count("for (") == 1 and text.count("kernel_step(vnpu, a, ") == 2


def test_two_loops_have_two_functions() -> None:
    other = (fence(X + 1), count(5))
    text = printed(Loop("x", N, pair(X), 2), Loop("x", N, other, 2))
    assert text.count("kernel_step(vnpu, a, ") == text.count("kernel_step2(vnpu, a, ") == 3


def test_guards_and_inner_loops_belong_to_the_function() -> None:
    inner = Loop("y", const(3), (count(X + Y), fence(X)))
    text = printed(Loop("x", N, (Guard(less(1, X), (inner,)), count(1)), unroll=3))
    assert text.count("for (int64_t y") == 1
    assert text.index("for (int64_t y") < text.index("static void kernel(")


@pytest.mark.parametrize("outer", [1, 2])
def test_a_loop_in_a_loop_hands_its_function_both_variables(outer: int) -> None:
    inner = Loop("y", N, (count(X * 2 + Y), fence(X)), unroll=2)
    text = printed(Loop("x", const(3), (count(X), inner), unroll=outer))
    assert text.count("const struct kernel_args *a, int64_t x, int64_t y)") == 1
    assert text.count("kernel_step(vnpu, a, x, y + 1);") == 1
    assert text.count("kernel_step2(vnpu, a, x + 1);") == outer - 1


def test_loops_without_commands_have_functions_of_their_own() -> None:
    nothing = Loop("y", N, (Guard(const(0), pair(N)),), unroll=2)
    text = printed(Loop("x", N, (count(X), nothing)), replace(nothing, var="z"))
    assert text.count("kernel_step(vnpu, a, x, y);") == 2
    assert text.count("kernel_step2(vnpu, a, z);") == 2


def test_an_entry_has_functions_too() -> None:
    """They may hold calls of kernels; the calls come out in the order of the copies."""
    kernel = Kernel("kernel", ("n",), (count(N),))
    loop = Loop("x", const(5), (count(1), Call(kernel, {"n": X + 2})), unroll=2)
    entry = Kernel("entry", (), (loop,))
    check_same_streams({"net": entry}, NPU)
    assert emit_c(entry, NPU, "net").count("net_step(vnpu, x + 1);") == 1


def test_parameters_and_variables_that_nothing_reads_are_named_as_unused() -> None:
    text = printed(Loop("x", const(4), (count(1), fence(2)), unroll=2), params=False)
    assert "static void kernel_step(vnpu_t *vnpu, int64_t x)\n{\n    (void)x;" in text
    assert text.count("kernel_step(vnpu, x") == 2


def test_names_in_comments_and_in_other_names_are_no_use_of_a_parameter() -> None:
    idle = Loop("y", N, (Comment("x, vnpu and a are free"),), unroll=2)
    text = printed(Loop("x", N, (idle,), unroll=2))
    assert "(void)x;\n    (void)y;\n    (void)vnpu;\n    (void)a;\n" in text
    assert "int64_t x)\n{\n    const int64_t n_1 = vnpu_max(" in text


def test_every_copy_writes_what_the_body_writes() -> None:
    """The second copy writes the register again, though it holds the value already."""
    text = printed(Loop("x", N, (count(X), count(X + 1)), unroll=2))
    assert text.count("VAR(COUNTER, id, x);") == text.count("VAR(COUNTER, id, x + 1);") == 1
