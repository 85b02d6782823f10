"""vnpu profile: what one inference costs, layer by layer."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_vnpu.cli.arguments import UsageError, add_model_options, shapes_of
from tvm_vnpu.cli.console import Console

if TYPE_CHECKING:
    from tvm_vnpu.report.profile import Profile

NAME = "profile"
HELP = "show cycles, bounds, stalls and memory use"
DESCRIPTION = """\
Time one inference of an artefact DIR or of a MODEL file. A float model needs no calibration data
here: it gets placeholder ranges, and the profile says so. A layer's cycles run from the end of the
layer before; `at least` is what array, vector unit or memory need whatever the schedule; `bound`
names what needs most, the controller included.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("target", metavar="DIR|MODEL", help="an artefact folder or an .onnx file")
    add_model_options(parser)
    parser.set_defaults(npu=None)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Profile and print."""
    profile = _profile(arguments, console)
    console.result(str(profile), profile.to_dict())


def _profile(arguments: argparse.Namespace, console: Console) -> Profile:
    shapes = shapes_of(arguments)
    target = Path(arguments.target)
    if target.is_dir():
        refuse_model_options(arguments)
        from tvm_vnpu.artifact import load_artifact

        return load_artifact(target).profile()
    from tvm_vnpu.artifact import profile_model

    return profile_model(
        target,
        npu=arguments.npu or "vnpu-256",
        shapes=shapes,
        rounding=arguments.rounding,
        progress=console.progress,
    )


def refuse_model_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that only fit a MODEL."""
    for name in ("npu", "rounding", "shape"):
        if getattr(arguments, name):
            raise UsageError(
                f"--{name} does not go with an artefact folder, which was compiled already",
                fix=f"leave --{name} out, or name the model file",
            )
