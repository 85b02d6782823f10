"""Bring a Relay module to the form that the patterns match: integers, constants bound."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import tvm
from tvm import relay
from tvm.relay.build_module import bind_params_by_name

from runtime_sim.errors import VnpuError
from tvm_vnpu.relay.clip_bounds import limited_clip
from tvm_vnpu.relay.dataflow import check_module, control_flow, without_lets
from tvm_vnpu.relay.matrix_products import (
    plain_batch_matmul,
    sized_product,
    sunk_reshape,
    transposed_constant,
)
from tvm_vnpu.relay.names import keep_names
from tvm_vnpu.relay.rewrite import rewrite_main
from tvm_vnpu.relay.split_slices import split_as_slices

_log = logging.getLogger(__name__)


def prepare(mod: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray] | None = None) -> tvm.IRModule:
    """Return the module with parameters bound, simplified, folded, and its Q/DQ as integers.

    This is what the CPU build of the same integers is made of. Q/DQ pairs are taken in before
    constants behind qnn operators are folded, or weights would become float. A `main` that is no
    plain dataflow is bound and typed only. Raises VnpuError for a module without `main`, and for
    parameters of another type than their variables.
    """
    check_module(mod)
    mod = tvm.IRModule(mod.functions, mod.type_definitions)
    if params:
        _check_params(mod["main"], params)
        mod["main"] = bind_params_by_name(mod["main"], dict(params))
    mod = _run(mod, relay.transform.InferType())
    if control_flow(mod["main"]):
        return mod
    with tvm.transform.PassContext(opt_level=3):
        mod = _run(
            without_lets(mod), relay.transform.InferType(), relay.transform.SimplifyInference(),
            relay.transform.FoldConstant(), relay.transform.InferType(),
        )  # fmt: skip
        for rewrite in (plain_batch_matmul, transposed_constant, sized_product, sunk_reshape):
            mod = rewrite_main(mod, rewrite)
        mod = to_integers(mod)
        for rewrite in (limited_clip, split_as_slices):
            mod = rewrite_main(mod, rewrite)
        return _run(mod, relay.transform.FoldConstant(fold_qnn=True), relay.transform.InferType())


def to_integers(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module with Q/DQ around operators turned into integer operators.

    Where TVM's pass makes a module that has no types, the module stays as it is, on the CPU.
    """
    try:
        rewritten = _run(
            mod, relay.transform.FakeQuantizationToInteger(), relay.transform.InferType()
        )
    except tvm.TVMError as error:
        _log.warning("TVM cannot turn this model's Q/DQ into integers: %s", error)
        return mod
    return keep_names(mod, rewritten)


def _check_params(function: relay.Function, params: Mapping[str, tvm.nd.NDArray]) -> None:
    """Raise VnpuError for a parameter that is not of its variable's type, where that is known."""
    for var in function.params:
        value, kind = params.get(str(var.name_hint)), var.type_annotation
        if value is None or not isinstance(kind, relay.TensorType):
            continue
        sizes = [int(n) if isinstance(n, tvm.tir.IntImm) else None for n in kind.shape]
        fits = len(sizes) == len(value.shape) and str(kind.dtype) == str(value.dtype)
        if not fits or any(n not in (None, m) for n, m in zip(sizes, value.shape, strict=True)):
            raise VnpuError(
                f"parameter {var.name_hint!r} is not of its variable's type",
                seen=f"{value.dtype}{tuple(value.shape)}",
                limit=f"{kind.dtype}{tuple(n if n is not None else '?' for n in sizes)}",
            )


def _run(mod: tvm.IRModule, *passes: tvm.transform.Pass) -> tvm.IRModule:
    return tvm.transform.Sequential(list(passes))(mod)
