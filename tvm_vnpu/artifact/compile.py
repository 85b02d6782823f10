"""Compile a model file into an artefact folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import onnx
import tvm
from tvm.support import cc

from codegen.compile_c import find_compiler
from codegen.profiles import profile as find_profile
from runtime_sim import npu as configurations
from runtime_sim.isa.header import INCLUDE_DIR
from runtime_sim.npu import NpuConfig
from tvm_vnpu.artifact.folder import MODEL, REGIONS, SOURCE, check_output, staged
from tvm_vnpu.artifact.load import Artifact, load_artifact
from tvm_vnpu.artifact.meta import Meta, Source
from tvm_vnpu.artifact.prepare import (
    Model,
    Shapes,
    annotated_model,
    calibrated_module,
    read_model,
)
from tvm_vnpu.artifact.progress import Batch, Progress, silent
from tvm_vnpu.artifact.records import Region, region_of
from tvm_vnpu.artifact.specs_of import input_specs, output_specs
from tvm_vnpu.frontend.compiled_regions import CompiledRegion, collect_regions
from tvm_vnpu.relax.explanation import Explanation
from tvm_vnpu.relax.partition import Annotated, generate, region_functions
from tvm_vnpu.tuner.history import History, apply_history_best

_STEPS = 4
_EMBEDDED_BYTES = 1 << 30


def compile_model(
    model: str | os.PathLike[str] | Model,
    out: str | os.PathLike[str],
    *,
    calibration: Iterable[Batch] | None = None,
    npu: str | NpuConfig = "vnpu-256",
    shapes: Shapes | None = None,
    rounding: str | None = None,
    history: History | None = None,
    progress: Progress = silent,
) -> Artifact:
    """Compile a model into the folder `out` and return the loaded artefact.

    `model`: a file, or what `read_model` returned for the same `shapes`. `calibration`: dicts from
    the model's own input names to arrays, needed for a float model. `history`: tuned schedules,
    see `tvm_vnpu.tuner.from_history`. `out` is written whole or not at all; an artefact that is
    there is replaced. Raises VnpuError for anything a user can put right.
    """
    check_output(Path(out))
    config = configurations.load(npu)
    if rounding is not None:
        find_profile(rounding)
    find_compiler()
    if not isinstance(model, Model):
        model = read_model(model, shapes)
    module = calibrated_module(model, calibration, config)
    progress("compile", 0, _STEPS)
    annotated, explanation = annotated_model(model, module, config, rounding)
    with staged(Path(out)) as folder, _applied(history):
        _build(folder, model, module, annotated, explanation, shapes or {}, progress)
    return load_artifact(out)


def _applied(history: History | None) -> AbstractContextManager[object]:
    """Apply a history, or leave the one in force."""
    return nullcontext() if history is None else apply_history_best(history)


def _build(
    folder: Path,
    model: Model,
    module: tvm.IRModule,
    annotated: Annotated,
    explanation: Explanation,
    shapes: Shapes,
    progress: Progress,
) -> None:
    progress("compile", 1, _STEPS)
    with collect_regions() as compiled:
        partitioned = generate(annotated)
    progress("compile", 2, _STEPS)
    _export(partitioned, folder / MODEL)
    progress("compile", 3, _STEPS)
    labels = _labels(annotated)
    regions = [_write_region(folder / REGIONS, labels[c.symbol], c) for c in compiled]
    regions.sort(key=lambda region: list(labels.values()).index(region.record.name))
    meta = Meta(
        source=_write_source(folder, model, shapes),
        npu=annotated.npu,
        profile=annotated.profile.name,
        calibrated=True,
        inputs=input_specs(module),
        outputs=output_specs(module),
        regions=tuple(region.record for region in regions),
        operators=explanation.placements,
    )
    meta.write(folder)
    progress("compile", _STEPS, _STEPS)


def _export(partitioned: tvm.IRModule, target: Path) -> None:
    executable = tvm.compile(partitioned, target="llvm")
    program, *options = find_compiler()
    triple = cc.get_target_by_dump_machine(program)
    link = cc.cross_compiler(program, options=options, get_target_triple=triple)
    executable.export_library(str(target), fcompile=link)


def _labels(annotated: Annotated) -> dict[str, str]:
    """Return symbol -> label of every region, in order."""
    functions = region_functions(annotated.mod)
    return {str(f.attrs["global_symbol"]): label for label, f in functions.items()}


def _write_region(folder: Path, label: str, compiled: CompiledRegion) -> Region:
    """Write a region's C, command stream and constants, and return it."""
    folder.mkdir(exist_ok=True)
    header = folder / "vnpu.h"
    if not header.exists():
        header.write_bytes((Path(INCLUDE_DIR) / "vnpu.h").read_bytes())
    region = region_of(label, compiled.symbol, compiled.program)
    constants = f"{label}.constants.bin"
    (folder / constants).write_bytes(compiled.program.constants.tobytes())
    (folder / f"{label}.bin").write_bytes(np.ascontiguousarray(region.words, "<u8").tobytes())
    (folder / f"{label}.c").write_text(_relocated(compiled.source, constants), encoding="utf-8")
    return region


def _relocated(source: str, constants: str) -> str:
    """Return the C with its constants named as they lie beside it."""
    return re.sub(r'(\.incbin \\")[^"]*(\\")', lambda m: f"{m[1]}{constants}{m[2]}", source)


def _write_source(folder: Path, model: Model, shapes: Shapes) -> Source:
    """Keep a copy of the model, so that `eval` can compare against it."""
    target = folder / SOURCE
    large = model.onnx.ByteSize() > _EMBEDDED_BYTES
    onnx.save(model.onnx, str(target), save_as_external_data=large, location=f"{SOURCE}.data")
    return Source(
        file=model.path.name,
        kind="quantized" if model.quantized else "float",
        sha256=hashlib.sha256(target.read_bytes()).hexdigest(),
        shapes={name: tuple(int(n) for n in shape) for name, shape in shapes.items()},
    )
