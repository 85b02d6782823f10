"""The target `vnpu` of tvmc: importing this module makes `--target="vnpu, llvm"` known.

python -m tvm_vnpu.relay.tvmc compile --target="vnpu -npu=vnpu-64, llvm" model.onnx
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import tvm
from tvm.driver.tvmc import composite_target

from tvm_vnpu.relay import codegen_hook
from tvm_vnpu.relay.partition import partition_for_vnpu


def partition(
    mod: tvm.IRModule,
    params: Mapping[str, tvm.nd.NDArray] | None = None,
    mod_name: str = "default",
    npu: str = codegen_hook.DEFAULT_NPU,
    rounding: str | None = None,
) -> tvm.IRModule:
    """Partition as tvmc asks for it; `npu` and `rounding` come from the target's options."""
    del mod_name  # regions have names of their own
    return partition_for_vnpu(mod, params, npu, rounding=rounding)


composite_target.REGISTERED_CODEGEN[codegen_hook.NAME] = {
    "config_key": None,
    "pass_default": False,
    "default_target": None,
    "pass_pipeline": partition,
}


def main() -> int:
    """Run tvmc with the target known; returns its exit code."""
    from tvm.driver.tvmc.main import _main

    return int(_main(sys.argv[1:]) or 0)


if __name__ == "__main__":
    raise SystemExit(main())
