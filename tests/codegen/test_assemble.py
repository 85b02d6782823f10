"""The assembler: values, segments, arguments and errors. See test_controller for cycles."""

from __future__ import annotations

import time

import pytest

from codegen.assemble import Segment, assemble, assemble_kernel
from codegen.expr import ExprLike, as_expr, const, less, minimum, param, var
from codegen.kernel import Call, Guard, Instr, Kernel, Loop, command
from runtime_sim.isa.codec import EncodingError, decode
from runtime_sim.npu import load

NPU = load("vnpu-256")
X, Y, N = var("i"), var("j"), param("n")


def count(**fields: ExprLike) -> Instr:
    return Instr("COUNTER", {name: as_expr(value) for name, value in fields.items()})


def nest() -> Kernel:
    """Return a kernel of two loops whose guard depends on both of them."""
    inner = (count(id=X * 10 + Y), Guard(less(X, Y), (count(id=1000 + Y),)))
    return Kernel("nest", ("n",), (Loop("i", N, (Loop("j", const(3), inner), count(id=X))),))


def test_commands_interleave_as_the_loops_run() -> None:
    ids = [c["id"] for c in decode(assemble_kernel(nest(), {"n": 2}, NPU))]
    assert ids == [0, 1, 1001, 2, 1002, 0, 10, 11, 12, 1002, 1]


def test_a_kernel_of_nothing_has_no_commands() -> None:
    assert assemble_kernel(nest(), {"n": 0}, NPU).shape == (0, 16)
    assert assemble(Kernel("entry", (), ()), NPU).words.shape == (0, 16)


def test_values_outside_a_guard_are_not_encoded() -> None:
    guarded = Guard(less(X, 2), (count(id=0 - 70000 * (X - 1) + 0),))
    body = (Loop("i", const(4), (Guard(less(0, X), (guarded,)),)),)
    assert [c["id"] for c in decode(assemble_kernel(Kernel("k", (), body), {}, NPU))] == [0]


def test_segments_name_the_commands_of_each_call() -> None:
    calls = tuple(Call(nest(), {"n": const(n)}, label) for n, label in ((1, "first"), (0, "")))
    entry = Kernel("entry", (), (*calls, command("FENCE"), calls[0], command("END")))
    assembled = assemble(entry, NPU)
    assert assembled.segments == (
        Segment("first", "nest", 0, 6),
        Segment("nest", "nest", 6, 6),
        Segment("first", "nest", 7, 13),
    )
    assert len(assembled.words) == 14


def test_arguments_may_follow_the_loops_of_the_entry() -> None:
    kernel = Kernel("k", ("n", "sem"), (count(id=N, wait=as_expr(1) << param("sem")),))
    call = Call(kernel, {"n": var("s") * 2 + 1, "sem": minimum(var("s"), 1)})
    entry = Kernel("entry", (), (Loop("s", const(3), (Guard(less(0, var("s")), (call,)),)),))
    assert [(c["id"], c["wait"]) for c in decode(assemble(entry, NPU).words)] == [(3, 2), (5, 2)]


def test_a_value_out_of_range_names_the_kernel_and_the_field() -> None:
    kernel = Kernel("big", ("n",), (Loop("i", const(3), (count(id=N + X),)),))
    with pytest.raises(EncodingError) as error:
        assemble_kernel(kernel, {"n": 65534}, NPU)
    assert str(error.value) == (
        "kernel big: COUNTER.id is out of range: seen 65536; limit 0..65535; "
        "choose a smaller tile or another schedule"
    )


def test_controller_time_that_does_not_fit_is_an_error() -> None:
    silent = Loop("i", const(3_000_000), (Guard(less(X, 0), (count(),)),))
    with pytest.raises(EncodingError, match=r"^kernel slow: COUNTER\.issue .* seen 18000010;"):
        assemble_kernel(Kernel("slow", (), (silent, count())), {}, NPU)


def test_whole_loop_nests_assemble_fast() -> None:
    kernel = Kernel("k", ("n",), (Loop("i", N, (Loop("j", const(50), (count(id=Y),)),)),))
    started = time.perf_counter()
    words = assemble_kernel(kernel, {"n": 2000}, NPU)
    assert len(words) / (time.perf_counter() - started) > 200_000
