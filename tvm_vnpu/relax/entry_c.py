"""The C of a region with its entry point for apache-tvm (region.c.in)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from codegen.graph import Tensor
from codegen.program import NpuProgram
from tvm_vnpu.frontend import entry_c


def region_c(
    symbol: str, program: NpuProgram, constants: Path, shape_arguments: Sequence[int] = ()
) -> str:
    """Return the translation unit of a region, see `tvm_vnpu.frontend.entry_c`.

    `shape_arguments`: positions among the arguments of shapes that TVM passes and nobody reads.
    """
    arity = len(program.arguments) + len(shape_arguments)
    positions = [i for i in range(arity) if i not in shape_arguments]
    arguments = [
        entry_c.Argument(tensor, position, memory_shape(tensor))
        for tensor, position in zip(program.arguments, positions, strict=True)
    ]
    template = (resources.files(__package__) / "region.c.in").read_text(encoding="utf-8")
    return entry_c.region_c(template, symbol, program, constants, arguments, arity)


def memory_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape as callers see it: NCHW where it has four axes."""
    if len(tensor.shape) == 4:
        height, width, channels = tensor.hwc
        return (1, channels, height, width)
    return tensor.shape
