"""vnpu disasm: the command streams of an artefact as text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runtime_sim.errors import VnpuError
from tvm_vnpu.cli.console import Console

if TYPE_CHECKING:
    from tvm_vnpu.artifact.records import LayerRecord, Region

NAME = "disasm"
HELP = "print the command streams"
DESCRIPTION = """\
Print the command stream of every region of an artefact DIR, one command a line, under the name of
the layer it belongs to. Fields that are zero are left out.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("artifact", metavar="DIR", help="a folder that `vnpu compile` wrote")
    parser.add_argument("--region", type=int, metavar="N", help="this region only, from 0")
    parser.add_argument(
        "--layer", metavar="NAME", help="this layer only: its name or one of its nodes"
    )


def execute(arguments: argparse.Namespace, console: Console) -> None:
    """Disassemble and print."""
    from tvm_vnpu.artifact import load_artifact

    regions = load_artifact(arguments.artifact).regions
    if arguments.region is not None:
        if not 0 <= arguments.region < len(regions):
            raise VnpuError(
                "no such region", seen=arguments.region, limit=f"0 to {len(regions) - 1}"
            )
        regions = regions[arguments.region : arguments.region + 1]
    parts = [part for region in regions for part in _parts(region, arguments.layer)]
    if not parts:
        names = [layer.name for region in regions for layer in region.record.layers]
        raise VnpuError("no such layer", seen=repr(arguments.layer), limit=", ".join(names))
    text = "\n".join(f"; {part['title']}\n" + "\n".join(part["commands"]) for part in parts)
    console.result(text, parts)


def _parts(region: Region, wanted: str | None) -> Iterator[dict[str, Any]]:
    """Yield the stretches of a stream: each layer, and what lies between them."""
    from runtime_sim.isa.disasm import disassemble_lines

    lines = list(disassemble_lines(region.words))
    after = 0
    for layer in region.record.layers:
        if wanted is None and layer.first > after:
            yield _part(region, None, lines[after : layer.first])
        if wanted is None or wanted == layer.name or wanted in layer.nodes:
            yield _part(region, layer, lines[layer.first : layer.last])
        after = layer.last
    if wanted is None and after < len(lines):
        yield _part(region, None, lines[after:])


def _part(region: Region, layer: LayerRecord | None, lines: list[str]) -> dict[str, Any]:
    name = region.record.name
    title = f"{name}: {layer.name} ({layer.kernel}: {layer.schedule})" if layer else f"{name}"
    return {
        "title": title,
        "region": name,
        "layer": layer.name if layer else None,
        "commands": lines,
    }
