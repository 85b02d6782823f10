"""vnpu compile: from a model file to an artefact folder."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tvm_vnpu.cli.arguments import (
    UsageError,
    add_image_options,
    add_model_options,
    images_of,
    shapes_of,
)
from tvm_vnpu.cli.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tvm_vnpu.artifact import Artifact
    from tvm_vnpu.artifact.prepare import Model
    from tvm_vnpu.artifact.progress import Batch
    from tvm_vnpu.data.images import ImageOptions
    from tvm_vnpu.tuner.history import History

NAME = "compile"
HELP = "compile a model into a folder"
DESCRIPTION = """\
Compile MODEL into the folder DIR: the model as a shared library that plain TVM loads, the kernels
as C, their command streams, and meta.json. A float model is quantised with the calibration data;
a quantised one is compiled as it is. DIR is written whole or not at all.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("-o", "--output", metavar="DIR", required=True, help="folder to write")
    parser.add_argument("--calib", metavar="DATA", help="calibration data, for a float model")
    parser.add_argument(
        "--tune-log", metavar="LOG", help="use the best schedules of a log of `vnpu tune`"
    )
    add_model_options(parser)
    add_image_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Compile and print a summary."""
    from pathlib import Path

    from codegen.compile_c import find_compiler
    from codegen.profiles import profile
    from runtime_sim.npu import load
    from tvm_vnpu.artifact.folder import check_output

    shapes, images = shapes_of(arguments), images_of(arguments)
    if arguments.calib is None and images.given:
        raise UsageError(f"--{images.given[0]} goes with --calib", fix="give both or neither")
    check_output(Path(arguments.output))
    load(arguments.npu)
    if arguments.rounding is not None:
        profile(arguments.rounding)
    history = _history(arguments)
    find_compiler()  # all that is cheap to refuse comes before TVM is imported
    from tvm_vnpu.artifact import compile_model, read_model

    model = read_model(arguments.model, shapes)
    artifact = compile_model(
        model,
        arguments.output,
        calibration=_batches(arguments, model, images, console),
        npu=arguments.npu,
        shapes=shapes,
        rounding=arguments.rounding,
        history=history,
        progress=console.progress,
    )
    console.result(summary(artifact), artifact.meta.to_dict())


def _batches(
    arguments: argparse.Namespace, model: Model, images: ImageOptions, console: Console
) -> Iterable[Batch] | None:
    """Return the calibration data, if there is any."""
    if arguments.calib is None:
        return None
    from tvm_vnpu.artifact.progress import tracked
    from tvm_vnpu.artifact.specs_of import input_specs
    from tvm_vnpu.data import open_data, without_labels

    inputs = input_specs(model.module)
    data = open_data(arguments.calib, inputs, images)
    rows = without_labels(data.batches(), inputs)
    return tracked(rows, "calibrate", data.samples, console.progress)


def _history(arguments: argparse.Namespace) -> History | None:
    """Return the tuned schedules that are asked for."""
    if arguments.tune_log is None:
        return None
    from tvm_vnpu.tuner.history import from_history

    return from_history(arguments.tune_log)


def summary(artifact: Artifact) -> str:
    """Return what was compiled as a short text."""
    from tvm_vnpu.report.placement import tally
    from tvm_vnpu.report.profile_text import counted, key_values
    from tvm_vnpu.report.table import size

    meta = artifact.meta
    counts = tally(meta.operators)
    on_cpu = [o for o in meta.operators if o.device == "cpu" and o.counts]
    layers = sum(len(region.layers) for region in meta.regions)
    kernels = {layer.kernel for region in meta.regions for layer in region.layers}
    commands = sum(region.commands for region in meta.regions)
    constants = sum(region.constants_bytes for region in meta.regions)
    contents = f"{counted(layers, 'layer')}, {counted(len(kernels), 'kernel')}"
    rows = [
        ["model", f"{meta.source.file} ({meta.source.kind})"],
        ["NPU", f"{meta.npu.name}, rounding {meta.profile}"],
        ["inputs", ", ".join(spec.describe() for spec in meta.inputs)],
        ["outputs", ", ".join(spec.describe() for spec in meta.outputs)],
        ["regions", f"{len(meta.regions)} ({contents})"],
        ["stream", f"{counted(commands, 'command')}, constants {size(constants)}"],
        ["on the CPU", f"{counts.on_cpu} of {counts.operators} operators"],
        ["written to", str(artifact.folder)],
    ]
    lines = [key_values(rows)]
    lines += [f"  {o.node} ({o.operator}): {o.reason}" for o in on_cpu[:10]]
    if len(on_cpu) > 10:
        lines.append(f"  and {len(on_cpu) - 10} more: see `vnpu explain {artifact.folder}`")
    return "\n".join(lines)
