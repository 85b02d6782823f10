"""Doors open one way: runtime_sim <- codegen <- tvm_vnpu."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import PurePosixPath

import pytest

from tests.source import ROOT, imported_modules, python_files, read

# Python 3.10 has no tomllib in its standard library; tomli stands in.
_MACHINE = {"numpy", "ml_dtypes", "tomllib", "tomli", "runtime_sim"}
ALLOWED = {"runtime_sim": _MACHINE, "codegen": _MACHINE | {"codegen"}}


def forbidden_imports(source: str, path: str) -> list[str]:
    """Name the imports of a runtime_sim or codegen file that its door does not let through."""
    package = ".".join(PurePosixPath(path).parent.parts)
    allowed = ALLOWED[path.split("/")[0]] | sys.stdlib_module_names
    return [
        f"{path}:{line}: imports {module}"
        for module, line in imported_modules(ast.parse(source), package)
        if module.split(".")[0] not in allowed
    ]


@pytest.mark.parametrize("path", python_files(*ALLOWED))
def test_imports_stay_behind_the_door(path: str) -> None:
    assert forbidden_imports(read(path), path) == []


@pytest.mark.parametrize(
    ("path", "source", "module"),
    [
        ("runtime_sim/machine.py", "import codegen.graph", "codegen.graph"),
        ("runtime_sim/engines/dma.py", "def f():\n    from tvm import relax", "tvm"),
        ("runtime_sim/npu.py", "if True:\n    import onnx", "onnx"),
        ("codegen/graph.py", "import numpy, tvm", "tvm"),
        ("codegen/ops/add.py", "from tvm_vnpu.relax import patterns", "tvm_vnpu.relax"),
        ("codegen/ops/add.py", "from ...tvm_vnpu import relax", "tvm_vnpu"),
    ],
)
def test_a_wrong_import_is_found(path: str, source: str, module: str) -> None:
    line = source.count("\n") + 1
    assert forbidden_imports(source, path) == [f"{path}:{line}: imports {module}"]


def test_right_imports_pass() -> None:
    source = "import json\nimport numpy as np\nfrom . import isa\nfrom .isa import table\n"
    assert forbidden_imports(source, "runtime_sim/machine.py") == []


def _run_python(code: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_importing_tvm_vnpu_imports_no_framework() -> None:
    _run_python(
        "import sys, tvm_vnpu; loaded = {'tvm', 'onnx', 'xgboost'} & set(sys.modules);"
        "assert not loaded, loaded; assert tvm_vnpu.__version__"
    )


def test_machine_and_compiler_import_without_any_framework() -> None:
    modules = [
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in python_files(*ALLOWED)
        if not path.endswith("__main__.py")
    ]
    _run_python(
        "import importlib, sys\n"
        "for name in ('tvm', 'onnx', 'onnxruntime', 'xgboost'): sys.modules[name] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)"
    )
