"""Artefact folders: contents, values, batches, names, replacement."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from runtime_sim import npu
from runtime_sim.errors import VnpuError
from runtime_sim.isa.header import INCLUDE_DIR
from tests.artifact.models import classifier, images, two_by_two, write
from tests.relax.onnx_models import random_values
from tvm_vnpu.artifact import Artifact, compile_model, explain_model, load_artifact, profile_model

_FILES = {
    "meta.json", "model.so", "source.onnx", "regions/vnpu.h", "regions/region0.c",
    "regions/region0.bin", "regions/region0.constants.bin",
}  # fmt: skip


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("artifact")
    return compile_model(
        write(folder, classifier()), folder / "out", calibration=[{"image": images()}]
    )


def _files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_folder_holds_all_parts(artifact: Artifact) -> None:
    assert _files(artifact.folder) == _FILES
    meta = json.loads((artifact.folder / "meta.json").read_text())
    assert (meta["format"], meta["isa_version"], meta["calibrated"]) == (1, 1, True)
    assert meta["npu_digest"] == npu.load("vnpu-256").digest()
    assert meta["inputs"] == [{"name": "image", "shape": [1, 1, 8, 8], "dtype": "float32"}]
    assert meta["outputs"] == [{"name": "scores", "shape": [1, 6], "dtype": "float32"}]
    assert {operator["device"] for operator in meta["operators"]} == {"npu"}
    layers = meta["regions"][0]["layers"]
    assert layers[0]["nodes"] == ["first/Conv", "first/Relu"] and layers[-1]["nodes"] == ["fc"]


def test_the_table_reads_back_as_it_was_written(artifact: Artifact) -> None:
    assert load_artifact(artifact.folder).meta == artifact.meta


def test_the_c_compiles_where_it_lies(artifact: Artifact, tmp_path: Path) -> None:
    folder = artifact.folder / "regions"
    command = ["cc", "-c", "region0.c", "-I.", "-o", str(tmp_path / "region0.o")]
    subprocess.run(command, cwd=folder, check=True)
    assert (folder / "vnpu.h").read_bytes() == (INCLUDE_DIR / "vnpu.h").read_bytes()


def test_values_are_near_the_float_model(artifact: Artifact) -> None:
    scores = artifact.run({"image": images()})["scores"]
    wanted = artifact.reference.run({"image": images()})["scores"]
    assert scores.shape == wanted.shape == (6, 6)
    assert np.abs(scores - wanted).max() < 0.03 * np.abs(wanted).max()


def test_a_fixed_batch_runs_sample_by_sample(artifact: Artifact) -> None:
    together = artifact.run({"image": images()})["scores"]
    alone = [artifact.run({"image": images()[i : i + 1]})["scores"] for i in range(6)]
    assert np.array_equal(together, np.concatenate(alone))


def test_plain_tvm_loads_the_model_in_a_fresh_process(artifact: Artifact) -> None:
    code = (
        "import numpy as np, tvm, tvm_vnpu.relax\nfrom tvm import relax\n"
        f"library = tvm.runtime.load_module({str(artifact.folder / 'model.so')!r})\n"
        "main = relax.VirtualMachine(library, tvm.cpu())['main']\n"
        "print(main(tvm.runtime.tensor(np.zeros((1, 1, 8, 8), np.float32))).numpy().shape)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "(1, 6)\n", result.stderr


def test_a_symbolic_batch_takes_any_number(tmp_path: Path) -> None:
    calibration = [{"image": images()}]
    path = write(tmp_path, classifier("N"))
    any_batch = compile_model(path, tmp_path / "out", calibration=calibration)
    assert any_batch.inputs[0].shape == (None, 1, 8, 8)
    assert any_batch.outputs[0].shape == (None, 6)
    many = images(70)
    together = any_batch.run({"image": many})["scores"]
    alone = [any_batch.run({"image": many[i : i + 1]})["scores"] for i in range(70)]
    assert np.array_equal(together, np.concatenate(alone))


def test_names_are_the_models_own(tmp_path: Path) -> None:
    arrays = {"x/in:0": random_values(2, 2, 4, 4), "y.b": random_values(2, 3, 4, 4)}
    model = write(tmp_path, two_by_two())
    compiled = compile_model(model, tmp_path / "out", calibration=[arrays])
    outputs = compiled.run(arrays)
    assert list(outputs) == ["out/a.0", "sum"]
    wanted = compiled.reference.run(arrays)
    for name, array in outputs.items():
        assert array.shape == (2, 3, 4, 4)
        assert np.abs(array - wanted[name]).max() < 0.1


def test_an_artifact_replaces_an_artifact(artifact: Artifact, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    path = write(tmp_path, classifier())
    for preset in ("vnpu-256", "vnpu-64"):
        compile_model(path, out, calibration=[{"image": images()}], npu=preset)
        assert load_artifact(out).meta.npu.name == preset
    assert _files(out) == _FILES
    assert sorted(p.name for p in out.parent.iterdir()) == ["out"]


def test_a_recompiled_folder_is_loaded_anew_beside_the_old(tmp_path: Path) -> None:
    out, calibration = tmp_path / "out", [{"image": images()}]
    old = compile_model(write(tmp_path, classifier()), out, calibration=calibration)
    before = old.run({"image": images()})["scores"]
    model = classifier()
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "v")
    weight.CopyFrom(onnx.numpy_helper.from_array(random_values(6, 8, seed=9), "v"))
    new = compile_model(write(tmp_path, model), out, calibration=calibration)
    after = new.run({"image": images()})["scores"]
    wanted = new.reference.run({"image": images()})["scores"]
    assert np.abs(after - wanted).max() < 0.03 * np.abs(wanted).max()
    assert np.abs(before - wanted).max() > 0.3 * np.abs(wanted).max()
    assert np.array_equal(old.run({"image": images()})["scores"], before)


def test_a_failure_leaves_nothing_and_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, path = tmp_path / "out", write(tmp_path, classifier())
    compile_model(path, out, calibration=[{"image": images()}])
    before = (out / "meta.json").read_bytes()

    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tvm_vnpu.artifact.compile._write_source", fail)
    for target in (out, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            compile_model(path, target, calibration=[{"image": images()}])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "out"]
    assert (out / "meta.json").read_bytes() == before


def test_an_uncalibrated_artifact_does_not_run(artifact: Artifact, tmp_path: Path) -> None:
    table = json.loads((artifact.folder / "meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps({**table, "calibrated": False}))
    with pytest.raises(VnpuError) as caught:
        load_artifact(tmp_path).run({"image": images()})
    assert str(caught.value) == (
        f"artefact {tmp_path} is not calibrated: its results mean nothing: "
        "compile the model with --calib DATA"
    )


def test_quantised_models_need_no_calibration(repository: Path, tmp_path: Path) -> None:
    compiled = compile_model(repository / "tests" / "cases" / "B02.onnx", tmp_path / "out")
    assert compiled.meta.source.kind == "quantized"
    assert compiled.meta.profile == "onnx"
    with np.load(repository / "tests" / "cases" / "B02.npz") as case:
        outputs = compiled.run({"x": case["in_x"]})
        assert np.array_equal(next(iter(outputs.values())), case["out_0"])


def test_rounding_overrides_the_origin(repository: Path, tmp_path: Path) -> None:
    case = repository / "tests" / "cases" / "B02.onnx"
    assert compile_model(case, tmp_path / "out", rounding="tflite").meta.profile == "tflite"


def test_profile_and_explanation_need_no_folder(tmp_path: Path) -> None:
    path = write(tmp_path, classifier())
    profile = profile_model(path)
    assert not profile.calibrated
    assert "NOT CALIBRATED" in str(profile)
    assert profile.layers[0].nodes == ("first/Conv", "first/Relu")
    assert explain_model(path).regions == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_pinned_shapes_reach_the_reference(tmp_path: Path) -> None:
    path = write(tmp_path, classifier(height="H"))
    shapes = {"image": (1, 1, 4, 8)}
    calibration = [{"image": images(height=4)}]
    compiled = compile_model(path, tmp_path / "out", calibration=calibration, shapes=shapes)
    again = load_artifact(tmp_path / "out")
    assert again.meta.source.shapes == shapes
    assert again.reference.run({"image": images(2, 4)})["scores"].shape == (2, 6)
    assert compiled.run({"image": images(2, 4)})["scores"].shape == (2, 6)


def test_the_kept_copy_is_the_model(artifact: Artifact) -> None:
    assert onnx.load(str(artifact.folder / "source.onnx")) == classifier()
