"""The C of a region: its kernels, its constants, and its entry point for TVM (region.c.in).

The entry checks each DLTensor, fills the command stream by calling the kernels, and hands integers
only to the driver, which it finds by name. The template declares the structs of apache-tvm-ffi,
so compiling needs no TVM headers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from codegen.compile_c import constants_c
from codegen.controller import lower_program
from codegen.emit_c import emit_programs
from codegen.graph import Tensor
from codegen.program import NpuProgram
from tvm_vnpu.relax.driver_name import DRIVER_NAME

_DLPACK_CODE = {"int8": (0, 8), "uint8": (1, 8), "int32": (0, 32), "float32": (2, 32)}
_CHUNK = 80


def region_c(
    symbol: str, program: NpuProgram, constants: Path, shape_arguments: Sequence[int] = ()
) -> str:
    """Return the translation unit of a region.

    `constants`: a file that holds `program.constants`; it is read when the text is compiled.
    `shape_arguments`: positions among the arguments of shapes that TVM passes and nobody reads.
    All symbols but the entry are static, so several regions link into one library.
    """
    name = program.entry.name
    arity = len(program.arguments) + len(shape_arguments)
    positions = [i for i in range(arity) if i not in shape_arguments]
    tensors = list(zip(program.arguments, positions, strict=True))
    kernels = emit_programs({name: lower_program(program.entry, program.npu)}, static=True)
    return (
        kernels
        + "\n"
        + fill(
            {
                "DRIVER": DRIVER_NAME,
                "CONSTANTS": constants_c("constants", constants),
                "CONFIG": _config(program),
                "SHAPES": "\n".join(_shape(i, t) for i, (t, _) in enumerate(tensors)),
                "ARGUMENTS": "\n".join(_argument(i, t, at) for i, (t, at) in enumerate(tensors)),
                "SYMBOL": symbol,
                "EMIT": name,
                "ARITY": str(arity),
                "CONSTANT_BYTES": str(program.constants.nbytes),
                "ARENA_BYTES": str(program.arena_bytes),
            }
        )
    )


def fill(values: dict[str, str]) -> str:
    """Return the template with each @NAME@ replaced."""
    text = (resources.files(__package__) / "region.c.in").read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _config(program: NpuProgram) -> str:
    """Return what the driver reads, NPU configuration and argument count, as C string literals."""
    table = {"arguments": len(program.arguments), "npu": json.loads(program.npu.to_json())}
    text = json.dumps(table, sort_keys=True)
    chunks = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    return "\n".join(f"    {json.dumps(chunk)}" for chunk in chunks)


def _shape(index: int, tensor: Tensor) -> str:
    sizes = ", ".join(map(str, memory_shape(tensor)))
    return f"static const int64_t shape{index}[] = {{ {sizes} }};"


def _argument(index: int, tensor: Tensor, position: int) -> str:
    code, bits = _DLPACK_CODE[tensor.dtype]
    numbers = f"{position}, {len(tensor.shape)}, {code}, {bits}, {tensor.nbytes}"
    return f"    {{ {json.dumps(tensor.name)}, {numbers}, shape{index} }},"


def memory_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape as callers see it: NCHW where it has four axes."""
    if len(tensor.shape) == 4:
        height, width, channels = tensor.hwc
        return (1, channels, height, width)
    return tensor.shape
