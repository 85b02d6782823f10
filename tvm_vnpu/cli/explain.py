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
    from tvm_vnpu.artifact.meta import OperatorRecord

NAME = "explain"
HELP = "say where each operator runs, and why"
DESCRIPTION = """\
List the operators of a MODEL file or of an artefact DIR with the device each runs on, its region on
the NPU, and the reason why it is not there. A float model is quantised with placeholder ranges
first.
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


def _operators(arguments: argparse.Namespace) -> tuple[OperatorRecord, ...]:
    shapes = shapes_of(arguments)
    target = Path(arguments.target)
    if target.is_dir():
        refuse_model_options(arguments)
        from tvm_vnpu.artifact import load_artifact

        return load_artifact(target).meta.operators
    from tvm_vnpu.artifact import explain_model
    from tvm_vnpu.artifact.prepare import operator_records

    npu = arguments.npu or "vnpu-256"
    return operator_records(
        explain_model(target, npu=npu, shapes=shapes, rounding=arguments.rounding)
    )


def explanation_text(operators: Sequence[OperatorRecord]) -> str:
    """Return the table of operators and a summary."""
    from tvm_vnpu.report.profile_text import counted
    from tvm_vnpu.report.table import percent, text_table

    rows = [[o.operator, o.node, o.device, o.region, o.reason] for o in operators]
    on_cpu = sum(o.device == "cpu" for o in operators)
    regions = len({o.region for o in operators if o.region})
    share = percent(on_cpu / len(operators) if operators else 0.0)
    table = text_table(("operator", "node", "device", "region", "reason"), rows)
    return (
        f"{table}\n\n{len(operators)} operators: {len(operators) - on_cpu} on the NPU in "
        f"{counted(regions, 'region')}, {on_cpu} on the CPU ({share})"
    )


def explanation_values(operators: Sequence[OperatorRecord]) -> dict[str, Any]:
    """Return the same for JSON."""
    from dataclasses import asdict

    on_cpu = sum(o.device == "cpu" for o in operators)
    return {
        "regions": len({o.region for o in operators if o.region}),
        "cpu_share": on_cpu / len(operators) if operators else 0.0,
        "operators": [asdict(o) for o in operators],
    }
