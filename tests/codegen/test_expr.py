"""Kernel expressions: evaluation, simplification and their C form."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.expr import (
    Expr,
    ceil_div,
    clamp,
    const,
    less,
    maximum,
    minimum,
    param,
    select,
    var,
)
from tests.codegen.random_kernels import PARAMS, KernelSource

X, Y, P = var("x"), var("y"), param("p")
seeds = st.integers(0, 2**32 - 1)


def draw(seed: int) -> tuple[Expr, dict[str, int]]:
    """Return a random expression over x, y and the parameters, and values for all of them."""
    random = Random(seed)
    expr = KernelSource(random).expression(("x", "y"), depth=4)
    names = ("x", "y", *PARAMS)
    return expr, {name: random.randint(0, 30) for name in names} | {"ring": random.randint(1, 9)}


@given(seed=seeds)
def test_arrays_evaluate_like_scalars(seed: int) -> None:
    expr, env = draw(seed)
    xs, ys = np.arange(4).reshape(4, 1), np.arange(3).reshape(1, 3)
    whole = np.broadcast_to(expr.evaluate({**env, "x": xs, "y": ys}), (4, 3))
    single = [[int(expr.evaluate({**env, "x": x, "y": y})) for y in range(3)] for x in range(4)]
    assert whole.tolist() == single


@given(seed=seeds)
def test_substitution_is_evaluation_in_steps(seed: int) -> None:
    expr, env = draw(seed)
    partly = expr.substitute({"x": const(env["x"]), "rows": Y + 1})
    assert int(partly.evaluate(env)) == int(expr.evaluate({**env, "rows": env["y"] + 1}))
    fully = expr.substitute({name: const(value) for name, value in env.items()})
    assert fully.constant == int(expr.evaluate(env))


def test_substitution_keeps_what_it_does_not_touch() -> None:
    expr = minimum(X * 3 + P, 9)
    assert expr.substitute({"y": const(1)}) is expr


@given(seed=seeds)
def test_provably_non_negative_values_are(seed: int) -> None:
    expr, env = draw(seed)
    assert not expr.non_negative or int(expr.evaluate(env)) >= 0


@pytest.mark.parametrize(
    ("expr", "simple"),
    [
        (X + 0, X), (0 + X, X), (X - 0, X), (X * 1, X), (1 * X, X), (X // 1, X), (X << 0, X),
        (X * 0, const(0)), (X - X, const(0)), (X % 1, const(0)), (less(X, X), const(0)),
        (minimum(X, X), X), (maximum(X, X), X), (select(X, Y, Y), Y), (select(1, X, Y), X),
        (X // 2 // 3, X // 6), (X * 2 * 3, X * 6),
        (X + 2 + 3, X + 5), (X + 2 - 5, X - 3), (X - 3 + 3, X), (X - -3, X + 3),
        (const(7) // 2, const(3)), (const(-7) // 2, const(-4)), (const(-7) % 2, const(1)),
        (ceil_div(9, 4), const(3)), (clamp(12, 0, 9), const(9)), (const(3) << 4, const(48)),
    ],
)  # fmt: skip
def test_simplification(expr: Expr, simple: Expr) -> None:
    assert expr == simple


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (X + Y * 2 - P, "x + y * 2 - a->p"),
        (X - (Y - 1), "x - (y - 1)"),
        ((X + 1) * 4, "(x + 1) * 4"),
        (X * (Y * 3), "x * (y * 3)"),
        ((X * 5) // 3, "x * 5 / 3"),
        (X * (Y % 3), "x * (y % 3)"),
        ((P + X) % 3, "vnpu_floor_mod(a->p + x, 3)"),
        ((P - X) // 3, "vnpu_floor_div(a->p - x, 3)"),
        (maximum(P, 0) // P, "vnpu_max(a->p, 0) / a->p"),
        (const(5) << P, "vnpu_shl(5, a->p)"),
        ((X + 1) & 3, "(x + 1) & 3"),
        (minimum(X + 1, P), "vnpu_min(x + 1, a->p)"),
        (less(X, P) + 1, "vnpu_less(x, a->p) + 1"),
        (select(less(X, Y + 1), X, Y) + 1, "(x < y + 1 ? x : y) + 1"),
        (select(P & 1, X, P + 2), "(a->p & 1) != 0 ? x : a->p + 2"),
        (const((1 << 40) + 16), "0x10000000010"),
        (const(-3) + X, "x - 3"),
    ],
)
def test_c_form(expr: Expr, text: str) -> None:
    assert expr.to_c("a->") == text


@pytest.mark.parametrize("divisor", [0, -2])
def test_divisors_are_positive(divisor: int) -> None:
    with pytest.raises(ValueError, match=f"^div needs a positive divisor, not {divisor}$"):
        X // divisor
    with pytest.raises(ValueError, match=f"^mod needs a positive divisor, not {divisor}$"):
        X % divisor


def test_a_condition_that_decides_evaluates_only_what_it_chose() -> None:
    ring = select(P, X % P, X)
    with np.errstate(all="raise"):
        assert ring.evaluate({"p": 0, "x": np.arange(3)}).tolist() == [0, 1, 2]
    assert ring.evaluate({"p": 2, "x": np.arange(3)}).tolist() == [0, 1, 0]


def test_names() -> None:
    expr = minimum(X + P, Y)
    assert expr.names("var") == {"x", "y"}
    assert expr.names("param") == {"p"}


@given(seed=seeds)
def test_equal_expressions_hash_alike_also_after_a_journey(seed: int) -> None:
    (left, _), (right, _) = draw(seed), draw(seed)
    again = pickle.loads(pickle.dumps(left))
    assert left == right == again
    assert hash(left) == hash(right) == hash(again)
    assert left != left + 1
