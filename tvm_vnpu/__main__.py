"""python -m tvm_vnpu is the vnpu command."""

from __future__ import annotations

from tvm_vnpu.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
