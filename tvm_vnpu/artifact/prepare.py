"""From a model file to a quantised module, and what can be said of it without compiling C."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx
import tvm

from runtime_sim import npu as configurations
from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig
from tvm_vnpu.artifact.progress import Batch, Progress, silent
from tvm_vnpu.artifact.records import Region, region_of
from tvm_vnpu.quantize import quantize, quantize_uncalibrated
from tvm_vnpu.relax import from_onnx, load_onnx
from tvm_vnpu.relax.codegen_hook import region_program
from tvm_vnpu.relax.explanation import Explanation, explain_annotated
from tvm_vnpu.relax.names import profile as origin_profile
from tvm_vnpu.relax.partition import Annotated, annotate_regions, region_functions
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import make_profile
from tvm_vnpu.report.profile import Profile

Shapes = Mapping[str, Sequence[int]]
SUFFIXES = (".onnx",)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model file: the ONNX it holds, its Relax module, whether it is quantised already."""

    path: Path
    onnx: onnx.ModelProto
    module: tvm.IRModule
    quantized: bool


def read_model(path: str | os.PathLike[str], shapes: Shapes | None = None) -> Model:
    """Read and import a model file. Raises VnpuError for one that cannot be read or imported."""
    where = Path(path)
    if where.suffix not in SUFFIXES:
        raise VnpuError(
            f"cannot read {os.fspath(path)!r} as a model",
            seen=f"suffix {where.suffix!r}",
            limit=" ".join(SUFFIXES),
            fix="export the model to ONNX",
        )
    model = load_onnx(where)
    module = from_onnx(model, shapes)
    return Model(where, model, module, origin_profile(module) is not None)


def calibrated_module(
    model: Model, batches: Iterable[Batch] | None, config: NpuConfig
) -> tvm.IRModule:
    """Return the quantised module: as it is, or calibrated with `batches`.

    Raises VnpuError for a float model without batches, and as `quantize`.
    """
    if batches is not None:
        return quantize(model.module, batches, npu=config)
    if model.quantized:
        return model.module
    raise VnpuError(
        f"{model.path.name} is a float model and there is no calibration data",
        fix="give some with --calib DATA, or see cycles without it with `vnpu profile`",
    )


def placeholder_module(model: Model, config: NpuConfig) -> tvm.IRModule:
    """Return the quantised module, with placeholder ranges where the model is a float one."""
    return model.module if model.quantized else quantize_uncalibrated(model.module, npu=config)


def annotated_model(
    model: Model, module: tvm.IRModule, config: NpuConfig, rounding: str | None
) -> tuple[Annotated, Explanation]:
    """Return the module with region functions and where each operator runs.

    Raises VnpuError for an unknown profile, and where nothing runs on the NPU.
    """
    annotated = annotate_regions(module, config, rounding=rounding)
    explanation = explain_annotated(annotated)
    if explanation.regions == 0:
        raise nothing_fits(model.path.name, explanation, config)
    return annotated, explanation


def nothing_fits(name: str, explanation: Explanation, config: NpuConfig) -> VnpuError:
    """Return the error for a model of which no operator runs on the NPU."""
    refused = [p for p in explanation.placements if p.reason and p.counts]
    first = next(iter(refused or explanation.placements), None)
    return VnpuError(
        f"no operator of {name} runs on NPU {config.name!r}",
        seen=f"{first.node}: {first.reason}" if first else "no operators",
        limit=f"SPM {config.spm_kib} KiB, ACC {config.acc_kib} KiB",
        fix="choose another NPU with --npu; `vnpu explain MODEL` lists every reason",
    )


def explain_model(
    path: str | os.PathLike[str],
    *,
    npu: str | NpuConfig = "vnpu-256",
    shapes: Shapes | None = None,
    rounding: str | None = None,
) -> Explanation:
    """Return where each operator of a model file would run.

    A float model is quantised with placeholder ranges first. Raises VnpuError as `read_model`, and
    for an unknown NPU or profile.
    """
    config = configurations.load(npu)
    module = placeholder_module(read_model(path, shapes), config)
    return explain_annotated(annotate_regions(module, config, rounding=rounding))


def profile_model(
    path: str | os.PathLike[str],
    *,
    npu: str | NpuConfig = "vnpu-256",
    shapes: Shapes | None = None,
    rounding: str | None = None,
    progress: Progress = silent,
) -> Profile:
    """Return the profile of a model file; nothing is compiled to C and nothing is written.

    A float model gets placeholder ranges: its cycles hold, `calibrated` is False. Raises VnpuError
    as `explain_model`, and where no operator fits the NPU.
    """
    config = configurations.load(npu)
    return make_profile(inference_of(read_model(path, shapes), config, rounding, progress))


def inference_of(
    model: Model, config: NpuConfig, rounding: str | None = None, progress: Progress = silent
) -> Inference:
    """Return one inference of a model, with placeholder ranges if it is a float one.

    Raises VnpuError for an unknown profile, and where no operator fits the NPU.
    """
    return timed_inference(model, placeholder_module(model, config), config, rounding, progress)


def timed_inference(
    model: Model,
    module: tvm.IRModule,
    config: NpuConfig,
    rounding: str | None = None,
    progress: Progress = silent,
) -> Inference:
    """Return one inference of a model whose quantised module is given. Raises as `inference_of`."""
    annotated, explanation = annotated_model(model, module, config, rounding)
    return Inference(
        model=model.path.name,
        npu=config,
        rounding=annotated.profile.name,
        calibrated=model.quantized,
        regions=_regions(annotated, progress),
        operators=explanation.placements,
    )


def _regions(annotated: Annotated, progress: Progress) -> list[Region]:
    regions = []
    functions = region_functions(annotated.mod)
    for done, (label, function) in enumerate(functions.items()):
        progress("compile regions", done, len(functions))
        symbol = str(function.attrs["global_symbol"])
        regions.append(region_of(label, symbol, region_program(function)))
    progress("compile regions", len(functions), len(functions))
    return regions
