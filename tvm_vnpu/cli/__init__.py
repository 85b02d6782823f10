"""The `vnpu` command: `main(arguments)` returns the process's exit code."""

from __future__ import annotations

from tvm_vnpu.cli.entry import main

__all__ = ["main"]
