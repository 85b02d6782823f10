"""vnpu sweep: what a model costs on many NPU configurations."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from tvm_vnpu.cli.arguments import add_model_options, shapes_of
from tvm_vnpu.cli.console import Console

NAME = "sweep"
HELP = "time a model on many NPU configurations"
DESCRIPTION = """\
Time one inference of a MODEL file on every combination of the values of --set, each put on the base
of --npu, in parallel processes. A combination that does not work is a row with its reason. Needs
no data: a float model gets placeholder ranges, and cycles do not depend on them.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument(
        "--set",
        action="append",
        required=True,
        metavar="FIELD=VALUE,...",
        help="a field of the NPU configuration and its values, for example array=8x8,16x16; "
        "once for each field",
    )
    parser.add_argument("-o", "--output", metavar="FILE.csv", help="write the rows as CSV")
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="worker processes (default: one for each core)"
    )
    add_model_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Sweep, write the CSV if asked, and print the table."""
    from codegen.profiles import profile
    from runtime_sim.npu import load
    from tvm_vnpu.report.output_file import output_file
    from tvm_vnpu.sweep.settings import parse_settings

    settings, shapes = parse_settings(arguments.set), shapes_of(arguments)
    load(arguments.npu)
    if arguments.rounding is not None:
        profile(arguments.rounding)  # all that is cheap to refuse comes before TVM is imported
    with (
        nullcontext() if arguments.output is None else output_file(arguments.output, "the table")
    ) as stream:
        from tvm_vnpu.sweep import sweep

        result = sweep(
            arguments.model,
            settings,
            npu=arguments.npu,
            shapes=shapes,
            rounding=arguments.rounding,
            jobs=arguments.jobs,
            progress=console.progress,
        )
        if stream is not None:
            result.write_csv(stream)
    text = str(result)
    if arguments.output:
        text += f"\nwritten to {arguments.output}"
    console.result(text, result.to_dict())
