"""The C of a region: its kernels, its constants, and its entry point for TVM.

The entry checks each DLTensor, fills the command stream by calling the kernels, and hands integers
only to the driver, which it finds by name. A door's template declares the structs of its TVM, so
compiling needs no TVM headers; what does not depend on TVM's version is in tensors.c.in.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from codegen.compile_c import constants_c
from codegen.controller import lower_program
from codegen.emit_c import emit_programs
from codegen.graph import Tensor
from codegen.program import NpuProgram
from tvm_vnpu.frontend.run_region import DRIVER_NAME

_DLPACK_CODE = {"int8": (0, 8), "uint8": (1, 8), "int32": (0, 32), "float32": (2, 32)}
_CHUNK = 80
_HERE = "tvm_vnpu.frontend"


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor as TVM passes it: its place among the arguments and its shape in memory.

    The first axis counts images, unless one image has all of the elements.
    """

    tensor: Tensor
    position: int
    shape: tuple[int, ...]


def region_c(
    template: str, symbol: str, program: NpuProgram, constants: Path, arguments: Sequence[Argument],
    arity: int,
) -> str:  # fmt: skip
    """Return the translation unit of a region.

    `template`: the door's entry. `constants`: a file that holds `program.constants`; it is read
    when the text is compiled. `arguments`: the program's, in order; `arity`: how many TVM passes.
    All symbols but the entry are static, so several regions link into one library.
    """
    name = program.entry.name
    kernels = emit_programs({name: lower_program(program.entry, program.npu)}, static=True)
    values = {
        "TENSORS": _tensors(),
        "DRIVER": DRIVER_NAME,
        "CONSTANTS": constants_c("constants", constants),
        "CONFIG": _config(program),
        "SHAPES": "\n".join(_shape(i, a) for i, a in enumerate(arguments)),
        "ARGUMENTS": "\n".join(_argument(i, a) for i, a in enumerate(arguments)),
        "SYMBOL": symbol,
        "EMIT": name,
        "ARITY": str(arity),
        "CONSTANT_BYTES": str(program.constants.nbytes),
        "ARENA_BYTES": str(program.arena_bytes),
    }
    for key, value in values.items():
        template = template.replace(f"@{key}@", value)
    return f"{kernels}\n{template}"


def _tensors() -> str:
    return (resources.files(_HERE) / "tensors.c.in").read_text(encoding="utf-8")


def _config(program: NpuProgram) -> str:
    """Return what the driver reads, NPU configuration and argument count, as C string literals."""
    table = {"arguments": len(program.arguments), "npu": json.loads(program.npu.to_json())}
    text = json.dumps(table, sort_keys=True)
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    return "\n".join(f"    {json.dumps(chunk)}" for chunk in chunks)


def _shape(index: int, argument: Argument) -> str:
    sizes = ", ".join(map(str, argument.shape))
    return f"static const int64_t shape{index}[] = {{ {sizes} }};"


def _argument(index: int, argument: Argument) -> str:
    tensor = argument.tensor
    code, bits = _DLPACK_CODE[tensor.dtype]
    whole = int(argument.shape[:1] != (1,) and tensor.elements == math.prod(argument.shape))
    numbers = (
        f"{argument.position}, {len(argument.shape)}, {code}, {bits}, {whole}, {tensor.nbytes}"
    )
    return f"    {{ {json.dumps(tensor.name)}, {numbers}, shape{index} }},"
