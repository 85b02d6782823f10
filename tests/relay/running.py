"""Build and run Relay modules in process: on TVM's CPU, and with regions on the NPU."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend import te_compiler
from tvm.relay.backend.executor_factory import ExecutorFactoryModule

from tvm_vnpu.relay import partition_for_vnpu
from tvm_vnpu.relay.rewrite import operator_name, rewrite_main

te_compiler.libinfo = functools.cache(te_compiler.libinfo)
"""TVM asks how it was built for every axis that it lowers, a fifth of a build's time."""
Feeds = Mapping[str, np.ndarray]


@contextmanager
def exact(rounding: str = "UPWARD") -> Iterator[None]:
    """Requantise in int64 within this context: what the NPU equals."""
    with relay.qnn.op.requantize_config(rounding=rounding, compute_dtype="int64"):
        yield


def build(mod: tvm.IRModule, opt_level: int = 3, **config: object) -> ExecutorFactoryModule:
    """Return a module built for the CPU; regions are compiled by the hook."""
    with tvm.transform.PassContext(opt_level=opt_level, config=config):
        return relay.build(mod, "llvm")


def build_for_cpu(mod: tvm.IRModule) -> ExecutorFactoryModule:
    """Return TVM's own build, quickly and with no other value.

    Blocked layouts cost a third of the time; common subexpressions of vectorised TONEAREST get
    debug information that TVM's LLVM refuses.
    """
    with tvm.transform.PassContext(
        opt_level=3, disabled_pass=["AlterOpLayout"], config={"tir.disable_cse_tir": True}
    ):
        return relay.build(mod, "llvm")


def run(mod: tvm.IRModule, feeds: Feeds, opt_level: int = 3, **config: object) -> list[np.ndarray]:
    """Return the outputs of a module by the graph executor."""
    return execute(build(mod, opt_level, **config), feeds)


def execute(built: ExecutorFactoryModule, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of a built module by the graph executor."""
    executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
    for name, value in feeds.items():
        executor.set_input(name, value)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


def on_cpu(mod: tvm.IRModule, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of TVM's own build.

    Its schedule of a batched product fails where a reshape to other axes is fused with it.
    """
    try:
        return execute(build_for_cpu(mod), feeds)
    except ValueError:
        return execute(build_for_cpu(rewrite_main(mod, _unfused)), feeds)


def _unfused(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return a reshape that is fused with nothing before it."""
    if operator_name(old) != "reshape":
        return new
    return relay.reshape(relay.annotation.stop_fusion(new.args[0]), old.checked_type.shape)


def both(mod: tvm.IRModule, feeds: Feeds, rounding: str = "UPWARD") -> tuple[list, list]:
    """Return (outputs of TVM's own CPU build, outputs with regions on the NPU)."""
    with exact(rounding):
        return on_cpu(mod, feeds), run(partition_for_vnpu(mod), feeds)
