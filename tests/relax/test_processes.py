"""Compiled modules: export, fresh processes, threads, several regions, unloading."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from codegen.evaluate import evaluate
from tests.relax.onnx_models import make_model, random_values
from tests.relax.regions import quantized, region_graphs
from tvm_vnpu.relax import partition_for_vnpu

IMAGE = random_values(1, 3, 8, 8, seed=11)


def _module(seed: int) -> tvm.IRModule:
    weight = random_values(4, 3, 3, 3, seed=seed)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    return quantized(make_model([node], {"x": [1, 3, 8, 8]}, ["y"], {"w": weight}), {"x": IMAGE})


def _expected(mod: tvm.IRModule, image: np.ndarray = IMAGE) -> np.ndarray:
    (graph,) = region_graphs(mod)
    return evaluate(graph, [image])[0]


def _export(mod: tvm.IRModule, path: Path) -> Path:
    tvm.compile(partition_for_vnpu(mod), target="llvm").export_library(str(path))
    return path


def _run(machine: relax.VirtualMachine, image: np.ndarray = IMAGE) -> np.ndarray:
    return machine["main"](tvm.runtime.tensor(image)).numpy()


def _load(path: Path) -> relax.VirtualMachine:
    return relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())


def test_two_regions_of_equal_symbol_give_their_own_values(tmp_path: Path) -> None:
    mods = [_module(1), _module(2)]
    in_process = [
        relax.VirtualMachine(tvm.compile(partition_for_vnpu(mod), "llvm"), tvm.cpu())
        for mod in mods
    ]
    loaded = [_load(_export(mod, tmp_path / f"m{i}.so")) for i, mod in enumerate(mods)]
    for mod, here, there in zip(mods, in_process, loaded, strict=True):
        np.testing.assert_array_equal(_run(here), _expected(mod))
        np.testing.assert_array_equal(_run(there), _expected(mod))
    assert not np.array_equal(_expected(mods[0]), _expected(mods[1]))


def test_four_threads_on_one_module(tmp_path: Path) -> None:
    mod = _module(3)
    module = tvm.runtime.load_module(str(_export(mod, tmp_path / "m.so")))
    images = [random_values(1, 3, 8, 8, seed=20 + i) for i in range(4)]
    expected = [_expected(mod, image) for image in images]
    wrong: list[int] = []

    def work(index: int) -> None:
        machine = relax.VirtualMachine(module, tvm.cpu())
        for _ in range(25):
            if not np.array_equal(_run(machine, images[index]), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_unload_and_reload(tmp_path: Path) -> None:
    """Each load has a path of its own: the loader hands out a library it knows by its path."""
    mods = [_module(4), _module(5)]
    for turn, mod in enumerate([*mods, *mods]):
        path = _export(mod, tmp_path / f"m{turn}.so")
        for _ in range(2):
            machine = _load(path)
            np.testing.assert_array_equal(_run(machine), _expected(mod))
            del machine
            gc.collect()
        path.unlink()


_FRESH = """
import sys
import numpy as np
import tvm
from tvm import relax
{imports}
module = tvm.runtime.load_module(sys.argv[1])
machine = relax.VirtualMachine(module, tvm.cpu())
np.save(sys.argv[3], machine["main"](tvm.runtime.tensor(np.load(sys.argv[2]))).numpy())
"""


def _fresh(imports: str, library: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    np.save(folder / "in.npy", IMAGE)
    arguments = [str(library), str(folder / "in.npy"), str(folder / "out.npy")]
    return subprocess.run(
        [sys.executable, "-c", _FRESH.format(imports=imports), *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_fresh_process_runs_the_exported_library(tmp_path: Path) -> None:
    mod = _module(6)
    done = _fresh("import tvm_vnpu.relax", _export(mod, tmp_path / "m.so"), tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), _expected(mod))


def test_a_process_without_the_driver_names_the_import_to_add(tmp_path: Path) -> None:
    done = _fresh("", _export(_module(7), tmp_path / "m.so"), tmp_path)
    assert done.returncode != 0
    assert (
        "the vNPU driver is not registered: add `import tvm_vnpu.relax` to this program"
        in done.stderr
    )


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (IMAGE.astype(np.float64), "dtype"),
        (IMAGE[:, :2], "shape"),
    ],
)
def test_wrong_arguments_are_refused(argument: np.ndarray, message: str) -> None:
    machine = relax.VirtualMachine(tvm.compile(partition_for_vnpu(_module(8)), "llvm"), tvm.cpu())
    with pytest.raises(Exception, match=message):
        machine["main"](tvm.runtime.tensor(np.ascontiguousarray(argument)))
