"""vnpu eval: accuracy on labelled data."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tvm_vnpu.cli.arguments import add_image_options, images_of
from tvm_vnpu.cli.console import Console

if TYPE_CHECKING:
    from tvm_vnpu.artifact.evaluation import Evaluation

NAME = "eval"
HELP = "measure accuracy on labelled data"
DESCRIPTION = """\
Run the artefact DIR on labelled data and print top-1, and top-5 where there are more than five
classes, beside the model it was compiled from. The first output holds the class scores. The labels,
one class number for each sample, are the array called `labels`, else the only array that is no
input of the model; --labels names another.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("artifact", metavar="DIR", help="a folder that `vnpu compile` wrote")
    parser.add_argument("--validate", metavar="DATA", required=True, help="labelled data")
    parser.add_argument("--labels", metavar="NAME", help="the array that holds the labels")
    parser.add_argument(
        "--no-float", action="store_true", help="do not run the source model for comparison"
    )
    add_image_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Evaluate and print the accuracy."""
    images = images_of(arguments)
    from tvm_vnpu.artifact import evaluate, load_artifact
    from tvm_vnpu.data import open_data

    artifact = load_artifact(arguments.artifact)
    evaluation = evaluate(
        artifact,
        open_data(arguments.validate, artifact.inputs, images),
        labels=arguments.labels,
        reference=not arguments.no_float,
        progress=console.progress,
    )
    console.result(evaluation_text(evaluation), evaluation.to_dict())


def evaluation_text(evaluation: Evaluation) -> str:
    """Return the evaluation as text."""
    from tvm_vnpu.report.table import text_table

    columns = 3 if evaluation.npu.top5 is not None else 2
    rows = [row[:columns] for row in evaluation.rows()]
    lines = [text_table(("model", "top-1", "top-5")[:columns], rows), ""]
    if evaluation.reference is not None and evaluation.agreement is not None:
        lost = (evaluation.reference.top1 - evaluation.npu.top1) * 100
        lines.append(f"top-1 lost: {lost:.2f} points; same class: {evaluation.agreement:.2%}")
    lines.append(
        f"{evaluation.samples:,} samples; the simulator runs "
        f"{evaluation.images_per_second:,.4g} of them a second"
    )
    return "\n".join(lines)
