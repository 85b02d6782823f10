"""The version of the code that decides cycles: logs of another version are not comparable."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import codegen
import runtime_sim
import tvm_vnpu
from runtime_sim.isa.table import ISA_VERSION

_NO_CYCLES = (
    "runtime_sim/engines/",
    "runtime_sim/merge/",
    "runtime_sim/numerics/",
    "runtime_sim/verify/",
    "runtime_sim/driver.py",
    "runtime_sim/isa/disasm.py",
    "runtime_sim/isa/generate.py",
    "runtime_sim/isa/header.py",
    "runtime_sim/machine.py",
    "runtime_sim/plan.py",
    "runtime_sim/views.py",
    "codegen/c_locals.py",
    "codegen/c_steps.py",
    "codegen/compile_c.py",
    "codegen/emit_c.py",
    "codegen/evaluate.py",
    "codegen/ops/document.py",
    "codegen/ops/draw.py",
    "codegen/reference.py",
)
"""Sources that no cycle count depends on. A file that is not named here counts."""


def _files(package: Path) -> list[tuple[str, Path]]:
    paths = (path for suffix in ("py", "c") for path in package.rglob(f"*.{suffix}"))
    named = ((path.relative_to(package.parent).as_posix(), path) for path in paths)
    return sorted((name, path) for name, path in named if not name.startswith(_NO_CYCLES))


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return the hash of the compiler's and the timing model's sources: 12 hexadecimal digits."""
    digest = hashlib.sha256()
    for package in (codegen, runtime_sim):
        for name, path in _files(Path(package.__path__[0])):
            text = path.read_bytes().replace(b"\r\n", b"\n")
            digest.update(f"{name}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:12]


def versions() -> str:
    """Return what two processes must have in common to measure alike, as text for people."""
    return f"tvm-vnpu {tvm_vnpu.__version__}, ISA {ISA_VERSION}, code {code_version()}"
