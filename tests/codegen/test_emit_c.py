"""C as an engineer reads it, and what emit_c refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from codegen.compile_c import STRICT, check_syntax
from codegen.controller import lower_program
from codegen.emit_c import emit_c, emit_programs
from codegen.expr import ExprLike, as_expr, const, less, minimum, param, var
from codegen.kernel import (
    Call,
    Comment,
    Guard,
    Instr,
    Kernel,
    Loop,
    Node,
    command,
    instr,
    spm_fields,
)
from runtime_sim.errors import VnpuError
from runtime_sim.isa.fields import DType, Rounding
from runtime_sim.npu import load

NPU = load("vnpu-256")
ROW, OC = var("row"), var("oc")


def count(**fields: ExprLike) -> Instr:
    return Instr("COUNTER", {name: as_expr(value) for name, value in fields.items()})


def convolution(unroll: int = 1) -> Kernel:
    """Return a kernel that convolves rows with a 3x3 filter, sixteen output channels at a time."""
    rows, spm = param("row_end") - param("row_begin"), param("spm")
    load_row = instr(
        "LOAD", wait=4, post=1, dram=param("in") + (param("row_begin") + ROW) * 28,
        n0=1, n1=1, n2=3, run=28, spm_addr=spm + (ROW % 2) * 84,
    )  # fmt: skip
    conv = instr(
        "CONV", wait=1, post=2, w_type=DType.S8, a_type=DType.U8,
        **spm_fields("in", spm + (ROW % 2) * 84, 28, 1), in_h=3, in_w=28,
        out_h=1, out_w=28, kh=3, kw=3, sh=1, sw=1, dh=1, dw=1, pad_left=1, in_zp=param("zp"),
        w_addr=spm + 4096 + OC * 144, acc_addr=param("acc") + OC * 448, ic=1, oc=16, packed=1,
    )  # fmt: skip
    requant = instr(
        "REQUANT", wait=2, post=4, acc_addr=param("acc") + OC * 448, h=1, w=28, c=16,
        **spm_fields("out", spm + 8192 + OC * 16, 1344, 48), rounding=Rounding.TFLITE_DOUBLE,
        params=spm + 6000 + OC * 192, hi=minimum(param("hi"), 127),
    )  # fmt: skip
    body = (
        Comment("One row at a time: the next row loads while this one is convolved."),
        Loop("row", rows, (load_row, Loop("oc", const(3), (conv, requant), unroll))),
        Guard(param("flags") & 4, (instr("LOAD", dram=param("in"), n0=1, n1=1, n2=1, run=1),)),
    )
    params = ("in", "row_begin", "row_end", "spm", "acc", "sem", "flags", "zp", "hi")
    return Kernel("conv3x3", params, body, "3x3 convolution of one channel into 48.")


def entry(*kernels: Kernel) -> Kernel:
    nodes: list[Node] = []
    for index, kernel in enumerate(kernels):
        values = dict.fromkeys(kernel.params, const(0))
        values |= {"in": const(2 << 40), "row_begin": const(index), "row_end": const(index + 4)}
        nodes += [Call(kernel, {n: values[n] for n in kernel.params}, f"layer {index}")]
    return Kernel("entry", (), (*nodes, command("FENCE"), command("END")), "Two layers.")


@pytest.mark.parametrize("unroll", [1, 2])
def test_c_reads_like_this(golden: Callable[[str, str], None], unroll: int) -> None:
    kernel = convolution(unroll)
    text = emit_c(entry(kernel, kernel), NPU, "net")
    golden(f"conv3x3_unroll{unroll}.c", text)
    assert max(map(len, text.splitlines())) <= 100
    check_syntax(text, flags=(*STRICT, "-pedantic"))


def test_an_entry_can_be_static_and_units_share_kernels() -> None:
    kernel = convolution()
    programs = {name: lower_program(entry(kernel), NPU) for name in ("one", "two")}
    text = emit_programs(programs, static=True)
    assert text.count("static void conv3x3(") == 1
    assert text.count("static int32_t ") == 2
    check_syntax(text, flags=(*STRICT, "-Wno-unused-function"))


def test_units_refuse_two_kernels_of_one_name() -> None:
    programs = {str(u): lower_program(entry(convolution(u)), NPU) for u in (1, 2)}
    with pytest.raises(VnpuError, match="^two different kernels are called 'conv3x3': give"):
        emit_programs(programs)


def test_kernels_that_use_nothing_compile_without_warnings() -> None:
    unused = Kernel("unused", ("n",), (Comment("ends */ \\ here ??/"), count(id=3)), "/* doc")
    empty = Kernel("empty", (), ())
    never = Guard(const(0), (Call(Kernel("never", (), (count(),)), {}),))
    calls = (Call(unused, {"n": const(1)}, "n\u00e4me */"), Call(empty, {}), never)
    check_syntax(emit_c(Kernel("entry", (), calls), NPU, "net"))


def test_a_kernel_is_at_most_200_lines() -> None:
    kernel = Kernel("lengthy", (), (Loop("i", const(120), (count(id=var("i")),), unroll=0),))
    with pytest.raises(VnpuError) as error:
        emit_c(Kernel("entry", (), (Call(kernel, {}),)), NPU, "net")
    assert str(error.value) == (
        "kernel lengthy is too long in C: seen 243 lines; limit 200; unroll less"
    )


@pytest.mark.parametrize("name", ["int", "a", "vnpu", "x y", "9a", "vnpu_x", "SET", "caf\u00e9"])
def test_names_that_c_cannot_take(name: str) -> None:
    message = (
        f"kernel k: '{name}' cannot be a name in C: limit letters, digits and _, no keyword, "
        "not vnpu_*; rename it"
    )
    loop = Kernel("k", (), (Loop(name, const(2), (count(),)),))
    parameter = Kernel("k", (name,), (count(),))
    for kernel in (loop, parameter):
        call = Call(kernel, dict.fromkeys(kernel.params, const(0)))
        with pytest.raises(VnpuError) as error:
            emit_c(Kernel("entry", (), (call,)), NPU, "net")
        assert str(error.value) == message


def test_guards_print_as_conditions() -> None:
    body = (Guard(less(param("n"), 3), (count(),)), Guard(param("n") & 1, (count(),)))
    call = Call(Kernel("k", ("n",), body), {"n": const(1)})
    text = emit_c(Kernel("entry", (), (call,)), replace(NPU), "net")
    assert "if (a->n < 3) {" in text
    assert "if ((a->n & 1) != 0) {" in text
