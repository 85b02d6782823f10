"""Compile generated C with the host's compiler."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from runtime_sim.errors import VnpuError
from runtime_sim.isa.codec import Words
from runtime_sim.isa.fields import COMMAND_WORDS
from runtime_sim.isa.header import INCLUDE_DIR

COMPILERS = ("cc", "gcc", "clang")
STRICT = ("-Wall", "-Wextra", "-Werror")
_BASE = ("-std=c11", "-fPIC", "-fvisibility=hidden")


class CompilerError(VnpuError):
    """There is no C compiler, or it refused the generated C."""


def find_compiler() -> list[str]:
    """Return the command of the C compiler: $CC, else the first of cc, gcc, clang on PATH.

    Raises CompilerError if there is none.
    """
    chosen = os.environ.get("CC", "").strip()
    if chosen:
        command = shlex.split(chosen)
        if shutil.which(command[0]) is None:
            raise CompilerError(
                "no C compiler", seen=f"CC={chosen}", fix="point CC to a C compiler or unset it"
            )
        return command
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise CompilerError(
        "no C compiler", limit=f"$CC or one of {', '.join(COMPILERS)} on PATH",
        fix="install gcc or clang",
    )  # fmt: skip


def compile_object(
    source: str, out: Path, include_dirs: Iterable[Path] = (), flags: Sequence[str] = ("-O1",)
) -> Path:
    """Compile C text to the object file `out`; `vnpu.h` is found. Returns `out`.

    Raises CompilerError with the compiler's first diagnostic.
    """
    return _compile(source, out, ["-c"], include_dirs, flags)


def compile_shared(
    source: str, out: Path, include_dirs: Iterable[Path] = (), flags: Sequence[str] = ("-O1",)
) -> Path:
    """Compile C text to the shared object `out`. Returns and raises as `compile_object`."""
    return _compile(source, out, ["-shared"], include_dirs, flags)


def load_shared(source: str, flags: Sequence[str] = ("-O1",)) -> ctypes.CDLL:
    """Compile C text and load it into this process; no file is left.

    Raises CompilerError as `compile_shared`, OSError where the library cannot be loaded.
    """
    with tempfile.TemporaryDirectory(prefix="vnpu-so-") as folder:
        return ctypes.CDLL(str(compile_shared(source, Path(folder) / "library.so", flags=flags)))


def check_syntax(
    source: str, include_dirs: Iterable[Path] = (), flags: Sequence[str] = STRICT
) -> None:
    """Parse C text without output. Raises CompilerError as `compile_object`."""
    _compile(source, Path(os.devnull), ["-fsyntax-only"], include_dirs, flags)


def _compile(
    source: str, out: Path, mode: list[str], include_dirs: Iterable[Path], flags: Sequence[str]
) -> Path:
    includes = [f"-I{folder}" for folder in (INCLUDE_DIR, *include_dirs)]
    with tempfile.TemporaryDirectory(prefix="vnpu-cc-") as folder:
        path = Path(folder) / "kernels.c"
        path.write_text(source, encoding="utf-8")
        command = [*find_compiler(), *_BASE, *includes, *flags, *mode, str(path), "-o", str(out)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CompilerError(
            "the C compiler refused the generated kernels",
            seen=_first_diagnostic(result.stderr).replace(f"{folder}/", ""),
            fix="try another compiler with CC=..., or report the model",
        )
    if not out.exists():
        raise CompilerError(
            "the C compiler wrote no object file",
            seen=shlex.join(find_compiler()),
            fix="try another compiler with CC=...",
        )
    return out


def _first_diagnostic(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line]
    return (errors or lines or ["no message"])[0]


def constants_c(symbol: str, path: Path) -> str:
    """Return C text that includes the file at `path` as a 64-byte aligned blob.

    It declares `<symbol>_begin` and `<symbol>_end`, arrays of unsigned char that no other object
    sees. The file is read when the text is compiled.
    """
    quoted = str(path.resolve()).replace("\\", "\\\\").replace('"', '\\"')
    literal = f'.incbin "{quoted}"'.replace("\\", "\\\\").replace('"', '\\"')
    return f"""\
extern const unsigned char {symbol}_begin[] __attribute__((visibility("hidden")));
extern const unsigned char {symbol}_end[] __attribute__((visibility("hidden")));
#ifdef __APPLE__
__asm__(".section __TEXT,__const\\n.p2align 6\\n_{symbol}_begin:\\n"
        "{literal}\\n_{symbol}_end:\\n.byte 0\\n.text\\n");
#else
__asm__(".pushsection .rodata\\n.balign 64\\n{symbol}_begin:\\n"
        "{literal}\\n{symbol}_end:\\n.byte 0\\n.popsection\\n");
#endif
"""


_COLLECT = """
__attribute__((visibility("default")))
int32_t {symbol}_collect(uint64_t **words, uint64_t *count);
int32_t {symbol}_collect(uint64_t **words, uint64_t *count)
{{
    static vnpu_t vnpu;
    vnpu_open(&vnpu);
    {symbol}_emit(&vnpu);
    *words = vnpu.words;
    *count = vnpu.count;
    return vnpu.status;
}}
"""
_RELEASE = """
__attribute__((visibility("default")))
void release(uint64_t *words);
void release(uint64_t *words) { free(words); }
"""


def emitted_streams(
    source: str, symbols: Sequence[str], flags: Sequence[str] = (*STRICT, "-O0")
) -> dict[str, Words]:
    """Compile a unit of `emit_c`, run its entries and return each one's stream, (commands, 16).

    Raises CompilerError as `compile_shared`, and VnpuError where an entry reports an error.
    """
    text = source + "".join(_COLLECT.format(symbol=symbol) for symbol in symbols) + _RELEASE
    library = load_shared(text, flags)
    return {symbol: _collect(library, symbol) for symbol in symbols}


def emitted_stream(source: str, symbol: str) -> Words:
    """Return the stream of one entry; see `emitted_streams`."""
    return emitted_streams(source, [symbol])[symbol]


def _collect(library: ctypes.CDLL, symbol: str) -> Words:
    words, count = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
    status = getattr(library, f"{symbol}_collect")(ctypes.byref(words), ctypes.byref(count))
    size = count.value * COMMAND_WORDS
    stream = np.ctypeslib.as_array(words, (size,)).copy() if size else np.zeros(0, np.uint64)
    library.release(words)
    if status:
        raise VnpuError(f"{symbol}_emit reports an error", seen=f"vnpu_status {status}")
    return stream.reshape(-1, COMMAND_WORDS)
