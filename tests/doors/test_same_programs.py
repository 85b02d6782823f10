"""Both doors make the same program of a model when they are told one semantics profile.

The suite runs in one environment for each door; both compare with the recorded file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from codegen.controller import lower_program
from codegen.emit_c import emit_programs
from codegen.program import NpuProgram
from tests.doors.programs import programs

CASES = Path(__file__).parents[1] / "cases"
MODELS = ("fmnist_cnn_28x28_qdq_s8s8_pc", "B05", "B07", "B11", "B15")
PROFILES = ("integer", "onnx", "tflite")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def describe(program: NpuProgram) -> str:
    """Return hashes of the C kernels, the command stream and the constants, and the arena."""
    name = program.entry.name
    text = emit_programs({name: lower_program(program.entry, program.npu)}, static=True)
    stream = program.assemble().words.tobytes()
    parts = (text.encode(), stream, program.constants.tobytes())
    return " ".join((*map(_digest, parts), str(program.arena_bytes)))


def test_programs_are_byte_identical_through_both_doors(
    golden: Callable[[str, str], None],
) -> None:
    lines = ["# model, profile, then: C, stream, constants (SHA-256), bytes of arena"]
    for model in MODELS:
        for profile in PROFILES:
            made = programs(CASES / f"{model}.onnx", profile)
            lines += [f"{model} {profile} {describe(program)}" for program in made]
    golden("programs.txt", "\n".join(lines) + "\n")
