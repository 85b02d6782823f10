"""Finding and running the C compiler."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path

import pytest

from codegen.compile_c import (
    CompilerError,
    compile_object,
    compile_shared,
    constants_c,
    emitted_stream,
    find_compiler,
)
from codegen.emit_c import emit_c
from codegen.expr import const
from codegen.kernel import Guard, Instr, Kernel, Loop
from runtime_sim.errors import VnpuError
from runtime_sim.npu import load


def test_cc_chooses_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{shutil.which('sh')} -x")
    assert find_compiler() == [shutil.which("sh"), "-x"]


def test_a_cc_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(CompilerError) as error:
        find_compiler()
    assert str(error.value) == (
        "no C compiler: seen CC=no-such-cc; point CC to a C compiler or unset it"
    )


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerError) as error:
        compile_object("", tmp_path / "x.o")
    assert str(error.value) == (
        "no C compiler: limit $CC or one of cc, gcc, clang on PATH; install gcc or clang"
    )


def test_the_first_diagnostic_is_kept_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(CompilerError) as error:
        compile_object("int f(void) { return 1 }\nint g(", tmp_path / "x.o")
    text = str(error.value)
    assert text.startswith("the C compiler refused the generated kernels: seen kernels.c:1:")
    assert "error" in text and "\n" not in text
    assert list(tmp_path.iterdir()) == []


def test_constants_are_included_from_a_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 3
    blob = tmp_path / 'odd "name" \\.bin'
    blob.write_bytes(data)
    source = constants_c("net", blob) + (
        '__attribute__((visibility("default"))) const unsigned char *begin(void);\n'
        "const unsigned char *begin(void) { return net_begin; }\n"
        '__attribute__((visibility("default"))) long size(void);\n'
        "long size(void) { return net_end - net_begin; }\n"
    )
    library = ctypes.CDLL(str(compile_shared(source, tmp_path / "x.so")))
    library.begin.restype = ctypes.c_void_p
    address = library.begin()
    assert library.size() == len(data)
    assert address % 64 == 0
    assert ctypes.string_at(address, len(data)) == data


def test_objects_with_equal_constant_symbols_link(tmp_path: Path) -> None:
    blob = tmp_path / "blob.bin"
    blob.write_bytes(b"12345678")
    for name in ("one", "two"):
        source = constants_c("net", blob) + f"long {name}(void) {{ return net_end - net_begin; }}"
        compile_object(source, tmp_path / f"{name}.o")
    objects = (str(tmp_path / "one.o"), str(tmp_path / "two.o"))
    compile_shared("", tmp_path / "both.so", flags=objects)


def _entry(*body: Instr | Loop) -> Kernel:
    return Kernel("entry", (), body)


def test_an_entry_that_does_not_fit_reports_it() -> None:
    wide = _entry(Instr("COUNTER", {"id": const(70000)}))
    with pytest.raises(VnpuError, match="^net_emit reports an error: seen vnpu_status 2$"):
        emitted_stream(emit_c(wide, load("vnpu-256"), "net"), "net")
    never = Guard(const(0), ())
    slow = _entry(Loop("i", const(3_000_000), (never,)), Instr("END", {}))
    with pytest.raises(VnpuError, match="^net_emit reports an error: seen vnpu_status 3$"):
        emitted_stream(emit_c(slow, load("vnpu-256"), "net"), "net")


def test_a_compiler_that_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "true")
    with pytest.raises(CompilerError) as caught:
        compile_object("", tmp_path / "o.o")
    assert str(caught.value) == (
        "the C compiler wrote no object file: seen true; try another compiler with CC=..."
    )
