"""Controller code: what is hoisted, which registers are written, and what it all costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from codegen.assemble import assemble
from codegen.controller import Code, Issue, SetRegisters, lower_controller, lower_program
from codegen.expr import ExprLike, as_expr, const, less, minimum, param, var
from codegen.kernel import Call, Guard, Instr, Kernel, Loop, Node, command
from runtime_sim.errors import VnpuError
from runtime_sim.isa.codec import decode
from runtime_sim.npu import Memory, NpuConfig, load

NPU = load("vnpu-256")
X, Y = var("i"), var("j")


def count(**fields: ExprLike) -> Instr:
    """Return a COUNTER instruction: it has the fields wait, post and id."""
    return Instr("COUNTER", {name: as_expr(value) for name, value in fields.items()})


def times(name: str, extent: ExprLike, *body: Node, unroll: int = 1) -> Loop:
    return Loop(name, as_expr(extent), body, unroll)


def call(*body: Node, name: str = "kernel", **args: int) -> Call:
    values = {key: const(value) for key, value in args.items()}
    return Call(Kernel(name, tuple(args), body), values)


def issues(*body: Node, npu: NpuConfig = NPU, **args: int) -> list[int]:
    """Return the issue fields of one kernel's commands."""
    return entry_issues(call(*body, **args), npu=npu)


def entry_issues(*body: Node, npu: NpuConfig = NPU) -> list[int]:
    return [c["issue"] for c in decode(assemble(Kernel("entry", (), body), npu).words)]


def lower(*body: Node, params: tuple[str, ...] = (), npu: NpuConfig = NPU) -> Code:
    return lower_controller(Kernel("k", params, body), npu)


def written(code: Code) -> list[list[str]]:
    """Return the fields that each top-level command or register setting writes."""
    kept = [node for node in code.body if isinstance(node, (Issue, SetRegisters))]
    return [[write.field for write in node.writes] for node in kept]


def test_a_register_that_holds_its_value_is_not_written_again() -> None:
    assert issues(count(id=1), count(id=1), count(id=2)) == [4 + 3 * 2, 4, 4 + 2]


def test_registers_belong_to_their_instruction() -> None:
    assert issues(count(), command("FENCE"), count()) == [10, 8, 4]


def test_loop_invariant_registers_are_set_once_before_the_loop() -> None:
    body = times("i", param("n"), count(id=7))
    assert issues(body, n=3) == [3 * 2 + 6 + 4, 6 + 4, 6 + 4]


def test_a_field_of_a_loop_variable_costs_more() -> None:
    assert issues(times("i", param("n"), count(id=X)), n=2) == [2 * 2 + 6 + 4 + 4, 6 + 4 + 4]


def test_a_register_is_set_before_the_outermost_loop_that_never_changes_it() -> None:
    nest = times("j", param("n"), times("i", param("n"), count(id=Y)))
    first = 2 * 2 + 6 + 4 + 6 + 4
    assert issues(nest, n=2) == [first, 6 + 4, 6 + 4 + 6 + 4, 6 + 4]


def test_two_values_in_a_loop_are_written_where_they_change() -> None:
    body = times("i", param("n"), count(id=1), count(id=2))
    assert issues(body, n=2) == [2 * 2 + 6 + 4 + 2, 4 + 2, 6 + 4 + 2, 4 + 2]


def test_a_value_that_is_back_at_the_end_of_the_body_survives_the_iteration() -> None:
    body = times("i", param("n"), count(id=1), count(id=2), count(id=1))
    expected = [10, 2 * 0 + 6 + 4, 4 + 2, 4 + 2, 6 + 4, 4 + 2, 4 + 2]
    assert issues(count(id=1), body, n=2) == expected


def test_a_loop_that_surely_runs_leaves_its_registers_known() -> None:
    body = (count(id=1), count(id=2))
    assert issues(times("i", 2, *body), count(id=2))[-1] == 4
    assert issues(times("i", param("n"), *body), count(id=2), n=2)[-1] == 4 + 2


def test_a_loop_variable_of_the_same_name_is_another_variable() -> None:
    loop = times("i", param("n"), count(id=X))
    assert issues(loop, loop, n=1) == [18, 6 + 4 + 4]


def test_a_guard_makes_what_it_changes_unknown() -> None:
    changed = (count(id=1), Guard(param("on"), (count(id=2),)), count(id=1))
    assert issues(*changed, on=1) == [10, 6, 6]
    assert issues(*changed, on=0) == [10, 6]


def test_a_guard_that_keeps_a_value_keeps_it_known() -> None:
    same = (count(id=1), Guard(param("on"), (count(id=1),)), count(id=1))
    assert issues(*same, on=1) == [10, 4, 4]


def test_nothing_is_known_after_a_call() -> None:
    assert entry_issues(count(), call(command("FENCE")), count()) == [10, 8, 10]


def test_calls_in_a_loop_keep_hoisting_out() -> None:
    loop = times("i", 2, call(command("FENCE")), count(id=3))
    assert entry_issues(loop) == [6 + 8, 10, 6 + 8, 10]


def test_skipped_guards_still_charge_their_iterations() -> None:
    guarded = times("i", param("n"), Guard(less(1, X), (command("FENCE"),)))
    assert issues(guarded, n=4) == [4 + 3 * 6 + 4, 6 + 4]


def test_cycles_after_the_last_command_go_to_the_next_one() -> None:
    silent = times("i", param("n"), Guard(less(9, X), (command("FENCE"),)))
    tail = (call(count(), silent, n=5), command("END"))
    assert entry_issues(*tail) == [10, 2 * 2 + 5 * 6 + 4 + 2 * 2]


def test_code_beyond_the_instruction_memory_is_fetched_every_iteration() -> None:
    small = replace(NPU, instruction_memory=11, memories=(Memory(bytes_per_cycle=5),))
    loop = times("i", param("n"), count(id=X))
    refill = 3  # 8 bytes of command and 4 of its field at 5 bytes per cycle
    assert issues(loop, npu=small, n=2) == [4 + 6 + refill + 8, 6 + refill + 8]
    fits = replace(small, instruction_memory=12)
    assert issues(loop, npu=fits, n=2) == [18, 14]


def test_each_copy_of_an_unrolled_body_takes_code_and_the_called_kernel_counts_once() -> None:
    assert lower(times("i", 4, count(id=X), unroll=0)).code_bytes == 4 * 8 + (3 + 3) * 4
    assert lower(times("i", 4, count(id=X), unroll=2)).code_bytes == 2 * 4 + 2 * (8 + 4)
    kernel = call(count(id=1))
    entry = Kernel("entry", (), (times("i", 2, kernel, kernel),))
    program = lower_program(entry, replace(NPU, instruction_memory=19))
    assert program.kernels["kernel"].code_bytes == program.entry.code_bytes == 20
    assert entry_issues(*entry.body, npu=replace(NPU, instruction_memory=19))[0] == 6 + 3 + 10


@pytest.mark.parametrize(
    ("unroll", "expected"),
    [
        (1, [4 + 6 + 8] + [6 + 8] * 4),
        (2, [4 + 6 + 8, 8, 6 + 8, 8, 6 + 8]),
        (3, [4 + 6 + 8, 8, 8, 6 + 8, 6 + 8]),
        (5, [10, 6, 6, 6, 6]),
        (0, [10, 6, 6, 6, 6]),
    ],
)
def test_unrolled_copies_save_iterations_and_variables(unroll: int, expected: list[int]) -> None:
    entry = Kernel("entry", (), (call(times("i", 5, count(id=X), unroll=unroll)),))
    commands = decode(assemble(entry, NPU).words)
    assert [c["id"] for c in commands] == [0, 1, 2, 3, 4]
    assert [c["issue"] for c in commands] == expected


@pytest.mark.parametrize(("n", "expected"), [(5, [0, 1, 2, 3, 4]), (1, [0]), (0, []), (-1, [])])
def test_an_extent_known_at_run_time_is_unrolled_with_a_loop_for_the_rest(
    n: int, expected: list[int]
) -> None:
    entry = Kernel("entry", (), (call(times("i", param("n"), count(id=X), unroll=2), n=n),))
    assert [c["id"] for c in decode(assemble(entry, NPU).words)] == expected


def test_a_loop_of_one_iteration_and_a_decided_guard_cost_nothing() -> None:
    laid_out = (times("i", 1, count(id=X)), times("i", 0, count(id=9)))
    assert issues(*laid_out) == [10]
    decided = times("i", 2, Guard(less(X, 1), (count(id=X),)), unroll=0)
    assert issues(decided) == [10]


def test_the_code_names_what_is_written() -> None:
    code = lower(times("i", param("n"), count(id=X)), count(id=2), params=("n",))
    assert written(code) == [["wait", "post"], ["id"]]


ERRORS: Mapping[str, tuple[Kernel, str]] = {
    "variable": (
        Kernel("k", (), (count(id=X),)),
        "kernel k: nothing binds i",
    ),
    "parameter": (
        Kernel("k", ("n",), (times("i", 2, count(id=param("m") + X)),)),
        "kernel k: nothing binds m",
    ),
    "extent": (
        Kernel("k", (), (times("i", 2, times("j", minimum(X, 3), count())),)),
        "kernel k: loop 'j' has an extent that is not made of parameters: seen vnpu_min(i, 3); "
        "use a guard inside a longer loop",
    ),
    "hidden": (
        Kernel("k", (), (times("i", 2, times("i", 2, count())),)),
        "kernel k: loop 'i' hides another name: rename its variable",
    ),
    "unroll": (
        Kernel("k", ("n",), (times("i", param("n"), count(), unroll=0),)),
        "kernel k: loop 'i' cannot be unrolled fully: seen n; limit a constant extent; "
        "set unroll = 1",
    ),
    "negative": (
        Kernel("k", (), (times("i", 4, count(), unroll=-1),)),
        "kernel k: loop 'i' has a negative unroll factor: seen -1; limit 0 (fully) or a factor; "
        "choose another schedule",
    ),
    "nested call": (
        Kernel("k", (), (call(count(), name="inner"),)),
        "kernel k calls inner: only entries may call",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_bad_kernel_is_refused(name: str) -> None:
    kernel, message = ERRORS[name]
    with pytest.raises(VnpuError) as error:
        lower_controller(kernel, NPU)
    assert str(error.value) == message


def test_two_kernels_of_one_name_are_refused() -> None:
    same = Kernel("entry", (), (call(count(id=1)), call(count(id=1))))
    assert list(lower_program(same, NPU).kernels) == ["kernel"]
    different = Kernel("entry", (), (call(count(id=1)), call(count(id=2))))
    with pytest.raises(VnpuError) as error:
        lower_program(different, NPU)
    assert str(error.value) == (
        "two different kernels are called 'kernel': give each shape and schedule a name of its own"
    )


def test_an_entry_takes_no_parameters() -> None:
    with pytest.raises(VnpuError, match="^entry k has parameters: seen n; limit none$"):
        lower_program(Kernel("k", ("n",), ()), NPU)
