"""Every form of DATA gives the same batches; what is wrong with one is named."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.relax.onnx_models import random_values
from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.data import DataError, ImageOptions, find_labels, open_data, without_labels
from tvm_vnpu.data.whole import read_npz

X = TensorSpec("x", (1, 2, 3), "float32")
TWO = (TensorSpec("x/in:0", (None, 3), "float32"), TensorSpec("y", (None, 2), "int8"))


def _joined(batches: Iterable[Any], name: str = "x") -> NDArray[Any]:
    return np.concatenate([batch[name] for batch in batches])


def _message(text: str | Path, *inputs: TensorSpec) -> str:
    with pytest.raises(DataError) as caught:
        list(open_data(str(text), inputs or (X,)).batches())
    return str(caught.value)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npz_streams_rows(tmp_path: Path, save: Any, order: str) -> None:
    values = np.asarray(random_values(70, 2, 3), order=order)
    save(tmp_path / "d.npz", x=values, labels=np.arange(70))
    data = open_data(str(tmp_path / "d.npz"), [X])
    assert data.samples == 70
    for _ in range(2):
        batches = list(data.batches())
        assert [len(batch["x"]) for batch in batches] == [32, 32, 6]
        assert np.array_equal(_joined(batches), values)
        assert np.array_equal(_joined(batches, "labels"), np.arange(70))


def test_batches_are_a_multiple_of_a_fixed_batch(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=random_values(60, 3))
    data = open_data(str(tmp_path / "d.npz"), [TensorSpec("x", (20, 3), "float32")])
    assert [len(batch["x"]) for batch in data.batches()] == [40, 20]


def test_names_need_no_sanitising(tmp_path: Path) -> None:
    arrays = {"x/in:0": random_values(4, 3), "y": np.zeros((4, 2), np.int8)}
    np.savez(tmp_path / "d.npz", **arrays)
    assert list(next(iter(open_data(str(tmp_path / "d.npz"), TWO).batches()))) == list(arrays)
    np.save(tmp_path / "x_in_0.npy", arrays["x/in:0"])
    np.save(tmp_path / "y.npy", arrays["y"])
    batch = next(iter(open_data(str(tmp_path), TWO).batches()))
    assert np.array_equal(batch["x/in:0"], arrays["x/in:0"])


def test_a_folder_of_samples(tmp_path: Path) -> None:
    values = random_values(5, 2, 3)
    for index, value in enumerate(values):
        np.save(tmp_path / f"sample{index}.npy", value if index % 2 else value[None])
    data = open_data(str(tmp_path), [X])
    assert data.samples is None
    assert np.array_equal(_joined(data.batches()), values)


def test_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loader_of_test.py").write_text(
        "import numpy as np\n"
        "def batches():\n    yield from ({'x': np.full((2, 2, 3), i)} for i in range(3))\n"
        "def number():\n    return 3\n"
        "def lists():\n    yield [1]\n"
        "value = 1\n"
    )
    monkeypatch.chdir(tmp_path)
    data = open_data("loader_of_test:batches", [X])
    assert np.array_equal(_joined(data.batches())[:, 0, 0], [0, 0, 1, 1, 2, 2])
    fix = "yield dicts from input names to arrays"
    for name, line in {
        "number": f"loader_of_test:number returns something other than batches: seen int; {fix}",
        "lists": f"loader_of_test:lists yields something other than a dict: seen list; {fix}",
        "value": "loader_of_test:value is no function: seen int",
    }.items():
        assert _message(f"loader_of_test:{name}") == line
    assert _message("no_such_module:f").startswith("cannot find the function no_such_module:f: ")


_FAULTS = """\
import numpy as np
def late():
    yield {'x': np.zeros((2, 2, 3))}
    raise RuntimeError("one\\ntwo")
def early(): raise KeyError("x")
def silent(): raise ValueError
def leaves(): raise SystemExit(3)
def ends():
    yield {'x': np.zeros((2, 2, 3))}
    raise SystemExit
def wants(path): return []
def numbers(): yield {1: np.zeros(1)}
def lists(): yield {'x': [1]}
"""


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("late", "fails: seen RuntimeError: one (faults_of_test.py:4); {correct}"),
        ("early", "fails: seen KeyError: 'x' (faults_of_test.py:5); {correct}"),
        ("silent", "fails: seen ValueError (faults_of_test.py:6); {correct}"),
        ("leaves", "fails: seen SystemExit: 3 (faults_of_test.py:7); {correct}"),
        ("ends", "fails: seen SystemExit (faults_of_test.py:10); {correct}"),
        (
            "wants",
            "fails: seen TypeError: wants() missing 1 required positional argument: 'path'; "
            "{correct}",
        ),
        ("numbers", "yields a dict whose keys are no names: seen 1; {wanted}"),
        ("lists", "yields no array for 'x': seen list; {wanted}"),
    ],
)
def test_a_fault_of_the_users_function_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: str
) -> None:
    (tmp_path / "faults_of_test.py").write_text(_FAULTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faults_of_test", raising=False)
    wanted = "yield dicts from input names to arrays"
    text = line.format(correct="correct the Python code", wanted=wanted)
    assert _message(f"faults_of_test:{name}") == f"faults_of_test:{name} {text}"


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("def f(:", "SyntaxError: invalid syntax (import_of_test.py, line 1)"),
        ("1 / 0", "ZeroDivisionError: division by zero (import_of_test.py:1)"),
        ("raise SystemExit(4)", "SystemExit: 4 (import_of_test.py:1)"),
    ],
)
def test_a_module_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, seen: str
) -> None:
    (tmp_path / "import_of_test.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "import_of_test", raising=False)
    assert _message("import_of_test:f") == (
        f"import_of_test:f fails: seen {seen}; correct the Python code"
    )


def test_what_the_users_function_prints_is_not_on_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "printing_of_test.py").write_text(
        "import numpy as np\nprint('import')\n"
        "def f():\n    print('call')\n    yield {'x': np.zeros((2, 2, 3))}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    list(open_data("printing_of_test:f", [X]).batches())
    assert capsys.readouterr() == ("", "import\ncall\n")


def test_image_options_need_images(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=random_values(3, 2, 3))
    with pytest.raises(DataError) as caught:
        open_data(str(path), [X], ImageOptions(crop=(4,)))
    assert str(caught.value) == (f"--crop goes with a folder of images: seen {path}; leave it out")


def test_an_archive_that_no_reader_expects(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    for content in (b"no header", b"\x93NUMPY\x01\x00\x10\x00{'shape': (1<<1)}", b"\x93NUMPY"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
        assert _message(path).startswith(f"cannot read {path} as an .npz file: seen ")
        with pytest.raises(DataError, match="as an .npz file: seen "):
            read_npz(path)


def test_an_array_that_ends_early_is_named(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.save(whole, random_values(4, 2, 3))
    with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
        archive.writestr("x.npy", whole.getvalue()[:-8])
    assert _message(tmp_path / "d.npz") == "array 'x' ends early: seen 88 of 96 bytes"


def test_an_npz_that_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=random_values(64, 2, 3))
    content = bytearray(path.read_bytes())
    content[300] ^= 255  # inside the data: the archive's checksum no longer holds
    path.write_bytes(bytes(content))
    assert _message(path).startswith(f"cannot read {path} as an .npz file: seen Bad CRC-32")


def test_misfits_are_named(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    np.savez(path, x=random_values(3, 2, 3), labels=np.arange(4))
    assert _message(path) == (
        f"the arrays in {path} have different numbers of samples: seen x: 3, labels: 4; "
        "give every array the same length along axis 0"
    )
    np.savez(path, x=np.float32(1))
    assert _message(path) == (
        "array 'x' has no axis for the samples: seen a scalar; "
        "store the samples along axis 0; a scalar input needs module:function"
    )
    np.savez(path, x=np.array([None, {}]))
    assert _message(path) == "array 'x' holds Python objects: save it as numbers"
    (tmp_path / "empty").mkdir()
    assert _message(tmp_path / "empty").startswith(
        f"the data folder holds neither .npy files nor images: seen {tmp_path / 'empty'}; "
    )
    (tmp_path / "d.csv").touch()
    assert _message(tmp_path / "d.csv").startswith(f"cannot read the data: seen {tmp_path}/d.csv")


def test_a_folder_lacks_an_input(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.zeros((4, 2), np.int8))
    assert _message(tmp_path, *TWO) == (
        f"folder {tmp_path} has no array for an input: seen y; limit x_in_0.npy, y.npy; "
        "add x_in_0.npy"
    )
    (tmp_path / "x_in_0.npy").write_bytes(b"text")
    assert _message(tmp_path, *TWO).startswith(f"cannot read {tmp_path}/x_in_0.npy: seen ")


def test_labels_are_found() -> None:
    assert find_labels(["x", "labels", "z"], [X], None) == "labels"
    assert find_labels(["x", "target"], [X], None) == "target"
    assert find_labels(["x", "target", "z"], [X], "z") == "z"
    for keys, wanted in ((["x"], None), (["x", "a", "b"], None), (["x", "a"], "c")):
        with pytest.raises(DataError):
            find_labels(keys, [X], wanted)


def test_calibration_ignores_labels_only() -> None:
    batch = {"x": np.zeros(1), "labels": np.zeros(1), "other": np.zeros(1)}
    assert [list(b) for b in without_labels([batch], [X])] == [["x", "other"]]
    labelled = TensorSpec("labels", (1,), "int64")
    assert [list(b) for b in without_labels([batch], [X, labelled])] == [list(batch)]
