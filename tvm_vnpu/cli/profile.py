"""vnpu profile: what one inference costs, layer by layer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_vnpu.cli.arguments import UsageError, add_model_options, shapes_of
from tvm_vnpu.cli.console import Console

if TYPE_CHECKING:
    from tvm_vnpu.report.inference import Inference

NAME = "profile"
HELP = "show cycles, bounds, stalls and memory use"
DESCRIPTION = """\
Time one inference of an artefact DIR or of a MODEL file. A float model needs no calibration data
here: it gets placeholder ranges, and the profile says so. A layer's cycles run from the end of the
layer before; `at least` is what array, vector unit or memory need whatever the schedule; `bound`
names what needs most, the controller included. --stalls adds what the busiest engine of each layer
waited for; --trace writes every command for https://ui.perfetto.dev or chrome://tracing.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("target", metavar="DIR|MODEL", help="an artefact folder or an .onnx file")
    add_model_options(parser)
    parser.add_argument(
        "--stalls", action="store_true", help="a table of what each layer waited for"
    )
    parser.add_argument("--trace", metavar="FILE", help="write a Perfetto (Chrome) trace as JSON")
    parser.set_defaults(npu=None)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Profile, write the trace if asked, and print."""
    from tvm_vnpu.report.make_profile import make_profile
    from tvm_vnpu.report.output_file import output_file
    from tvm_vnpu.report.profile_text import profile_text
    from tvm_vnpu.report.trace import write_trace

    if arguments.trace is None:
        profile = make_profile(_inference(arguments, console))
    else:
        with output_file(arguments.trace, "the trace") as stream:
            inference = _inference(arguments, console)
            write_trace(stream, inference)
        profile = make_profile(inference)
    text = profile_text(profile, arguments.stalls)
    if arguments.trace is not None:
        text += f"\ntrace written to {arguments.trace}"
    console.result(text, profile.to_dict())


def _inference(arguments: argparse.Namespace, console: Console) -> Inference:
    shapes = shapes_of(arguments)
    target = Path(arguments.target)
    if target.is_dir():
        refuse_model_options(arguments)
        from tvm_vnpu.artifact import load_artifact

        return load_artifact(target).inference
    from runtime_sim.npu import load
    from tvm_vnpu.artifact.prepare import inference_of, read_model

    config = load(arguments.npu or "vnpu-256")
    model = read_model(target, shapes)
    return inference_of(model, config, arguments.rounding, console.progress)


def refuse_model_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that only fit a MODEL."""
    for name in ("npu", "rounding", "shape"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name} does not go with an artefact folder, which was compiled already",
                fix=f"leave --{name} out, or name the model file",
            )
