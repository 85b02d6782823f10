"""Bring a Relay module to the form that the patterns match: integers, constants bound."""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import relay
from tvm.relay.build_module import bind_params_by_name

from tvm_vnpu.relay.clip_bounds import ClampClipBounds


def prepare(mod: tvm.IRModule, params: Mapping[str, tvm.nd.NDArray] | None = None) -> tvm.IRModule:
    """Return the module with parameters bound, simplified, folded, and its Q/DQ as integers.

    Q/DQ pairs are taken in before constants behind qnn operators are folded, or weights would
    become float. Regions of an earlier partition stay as they are.
    """
    if params:
        mod = tvm.IRModule(mod.functions, mod.type_definitions)
        mod["main"] = bind_params_by_name(mod["main"], dict(params))
    passes = [
        relay.transform.InferType(),
        relay.transform.SimplifyInference(),
        relay.transform.FoldConstant(),
        relay.transform.FakeQuantizationToInteger(),
        relay.transform.InferType(),
        ClampClipBounds(),
        relay.transform.FoldConstant(fold_qnn=True),
        relay.transform.InferType(),
    ]
    with tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential(passes)(mod)
