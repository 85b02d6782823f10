"""vnpu run: outputs for given inputs, computed on the simulated NPU."""

from __future__ import annotations

import argparse

from tvm_vnpu.cli.console import Console

NAME = "run"
HELP = "run a compiled model on given inputs"
DESCRIPTION = """\
Run the artefact DIR on the arrays of an .npz file, whose keys are the model's own input names. The
first axis holds the samples: any number, whether the model's batch is symbolic or fixed.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("artifact", metavar="DIR", help="a folder that `vnpu compile` wrote")
    parser.add_argument("--input", metavar="X.npz", required=True, help="the inputs by name")
    parser.add_argument("--output", metavar="Y.npz", help="where to write the outputs by name")


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Run, write the outputs, print what they are."""
    from tvm_vnpu.artifact import load_artifact
    from tvm_vnpu.data.whole import npz_file, read_npz
    from tvm_vnpu.report.table import text_table

    artifact = load_artifact(arguments.artifact)
    arrays = read_npz(arguments.input)
    if arguments.output is None:
        outputs = artifact.run(arrays, console.progress)
    else:
        with npz_file(arguments.output) as write:
            outputs = artifact.run(arrays, console.progress)
            write(outputs)
    rows = [
        {
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "min": array.min() if array.size else None,
            "max": array.max() if array.size else None,
        }
        for name, array in outputs.items()
    ]
    headers = ("output", "dtype", "shape", "min", "max")
    cells = [
        [r["name"], r["dtype"], str(tuple(r["shape"])), f"{r['min']:.6g}", f"{r['max']:.6g}"]
        for r in rows
    ]
    text = text_table(headers, cells)
    if arguments.output is not None:
        text += f"\nwritten to {arguments.output}"
    console.result(text, {"outputs": rows, "written": arguments.output})
