"""Graph executor, VM and AOT, each in process and in a process that loads the exported library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.runtime.vm import VirtualMachine

from tests.relay.graphs import conv2d, image, module, values
from tests.relay.running import build, exact, execute, on_cpu
from tests.source import ROOT
from tvm_vnpu.relay import partition_for_vnpu

IMAGE = values(1, 3, 8, 8, seed=5)
PREPARE = """\
import sys
import numpy as np, tvm
from tvm.contrib import graph_executor
from tvm.runtime.vm import Executable, VirtualMachine
folder, image = sys.argv[1], np.load(sys.argv[1] + "/image.npy")
"""
REGISTER = "import tvm_vnpu.relay.runtime\n"
GRAPH = """\
library = tvm.runtime.load_module(folder + "/model.so")
machine = graph_executor.GraphModule(library["default"](tvm.cpu()))
machine.set_input("x", image)
machine.run()
np.save(folder + "/result.npy", machine.get_output(0).numpy())
"""
AOT = """\
library = tvm.runtime.load_module(folder + "/model.so")
machine = tvm.runtime.executor.AotModule(library["default"](tvm.cpu()))
machine.set_input("x", image)
machine.run()
np.save(folder + "/result.npy", machine.get_output(0).numpy())
"""
VM = """\
library = tvm.runtime.load_module(folder + "/model.so")
code = open(folder + "/code.ro", "rb").read()
machine = VirtualMachine(Executable.load_exec(code, library), tvm.cpu())
np.save(folder + "/result.npy", machine.run(image).numpy())
"""


def _module(seed: int = 1) -> tvm.IRModule:
    return module(conv2d(image(1, 3, 8, 8), 4, seed=seed))


def _partitioned(seed: int = 1) -> tvm.IRModule:
    with exact():
        return partition_for_vnpu(_module(seed))


def _expected(seed: int = 1) -> np.ndarray:
    with exact():
        return on_cpu(_module(seed), {"x": IMAGE})[0]


def _vm() -> tvm.runtime.vm.Executable:
    with tvm.transform.PassContext(opt_level=3):
        return relay.vm.compile(_partitioned(), target="llvm")


def _aot() -> tvm.runtime.Module:
    executor = relay.backend.Executor("aot", {"interface-api": "packed"})
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(
            _partitioned(), "llvm", executor=executor, runtime=relay.backend.Runtime("cpp")
        )


def _fresh(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    np.save(folder / "image.npy", IMAGE)
    command = [sys.executable, "-c", PREPARE + script, str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _check(folder: Path, script: str) -> None:
    done = _fresh(folder, REGISTER + script)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(folder / "result.npy"), _expected())


def test_graph_executor_in_process() -> None:
    (result,) = execute(build(_partitioned()), {"x": IMAGE})
    np.testing.assert_array_equal(result, _expected())


def test_vm_in_process() -> None:
    result = VirtualMachine(_vm(), tvm.cpu()).run(IMAGE).numpy()
    np.testing.assert_array_equal(result, _expected())


def test_aot_in_process() -> None:
    machine = tvm.runtime.executor.AotModule(_aot()["default"](tvm.cpu()))
    machine.set_input("x", IMAGE)
    machine.run()
    np.testing.assert_array_equal(machine.get_output(0).numpy(), _expected())


def test_graph_executor_in_a_fresh_process(tmp_path: Path) -> None:
    build(_partitioned()).export_library(str(tmp_path / "model.so"))
    _check(tmp_path, GRAPH)


def test_vm_in_a_fresh_process(tmp_path: Path) -> None:
    code, library = _vm().save()
    library.export_library(str(tmp_path / "model.so"))
    (tmp_path / "code.ro").write_bytes(code)
    _check(tmp_path, VM)


def test_aot_in_a_fresh_process(tmp_path: Path) -> None:
    _aot().export_library(str(tmp_path / "model.so"))
    _check(tmp_path, AOT)


def test_a_process_without_the_driver_names_the_import_to_add(tmp_path: Path) -> None:
    build(_partitioned()).export_library(str(tmp_path / "model.so"))
    done = _fresh(tmp_path, GRAPH)
    assert done.returncode != 0
    assert "the vNPU driver is not registered: add `import tvm_vnpu.relay`" in done.stderr


def test_modules_of_one_process_keep_their_own_regions(tmp_path: Path) -> None:
    built = [build(_partitioned(seed)) for seed in (1, 2)]
    loaded = []
    for number, library in enumerate(built):
        path = tmp_path / f"m{number}.so"
        library.export_library(str(path))
        loaded.append(tvm.runtime.load_module(str(path)))
    for seed, here, there in zip((1, 2), built, loaded, strict=True):
        np.testing.assert_array_equal(execute(here, {"x": IMAGE})[0], _expected(seed))
        np.testing.assert_array_equal(execute(there, {"x": IMAGE})[0], _expected(seed))
    assert not np.array_equal(_expected(1), _expected(2))


def test_a_region_refuses_another_type() -> None:
    library = build(_partitioned()).get_lib()
    (name,) = [v.name_hint for v in _partitioned().get_global_vars() if v.name_hint != "main"]
    result = tvm.nd.array(np.zeros((1, 4, 8, 8), "int8"))
    with pytest.raises(ValueError, match=r"dtype \(bits\) of tensor .* is wrong: seen 8"):
        library[name](tvm.nd.array(IMAGE.astype("uint8")), result)
