"""vnpu explain: where each operator runs, and why not on the NPU."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_vnpu.cli.arguments import add_model_options, shapes_of
from tvm_vnpu.cli.console import Console
from tvm_vnpu.cli.profile import refuse_model_options

if TYPE_CHECKING:
    from tvm_vnpu.report.placement import Placement

NAME = "explain"
HELP = "say where each operator runs, and why"
DESCRIPTION = """\
List the operators of a MODEL file or of an artefact DIR with the device each runs on, its region on
the NPU, and the reason why it is not there. A float model is quantised with placeholder ranges
first. Nodes that only compute constants are left out.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("target", metavar="MODEL|DIR", help="an .onnx file or an artefact folder")
    add_model_options(parser)
    parser.set_defaults(npu=None)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Explain and print."""
    operators = _operators(arguments)
    text = explanation_text(operators)
    console.result(text, explanation_values(operators))


def _operators(arguments: argparse.Namespace) -> tuple[Placement, ...]:
    shapes = shapes_of(arguments)
    target = Path(arguments.target)
    if target.is_dir():
        refuse_model_options(arguments)
        from tvm_vnpu.artifact import load_artifact

        return load_artifact(target).meta.operators
    from tvm_vnpu.artifact import explain_model

    npu = arguments.npu or "vnpu-256"
    return explain_model(target, npu=npu, shapes=shapes, rounding=arguments.rounding).placements


def explanation_text(operators: Sequence[Placement]) -> str:
    """Return the table of operators and a summary."""
    from tvm_vnpu.report.placement import HEADERS, tally
    from tvm_vnpu.report.profile_text import counted
    from tvm_vnpu.report.table import percent, text_table

    counts = tally(operators)
    return (
        f"{text_table(HEADERS, [o.row() for o in operators])}\n\n"
        f"{counted(counts.operators, 'operator')}: {counts.on_npu} on the NPU in "
        f"{counted(counts.regions, 'region')}, {counts.on_cpu} on the CPU "
        f"({percent(counts.cpu_share)}); quantize and dequantize do not count"
    )


def explanation_values(operators: Sequence[Placement]) -> dict[str, Any]:
    """Return the same for JSON."""
    from dataclasses import asdict

    from tvm_vnpu.report.placement import tally

    counts = tally(operators)
    return {
        "regions": counts.regions,
        "cpu_share": counts.cpu_share,
        "operators": [asdict(o) for o in operators],
    }
