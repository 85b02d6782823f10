"""Where the model's own names live in a Relax module.

A node's name is the source name of the span of every call the node became: TVM's passes keep
spans, also on the root of a fused composite, while variable names survive only inside it. The
model's input and output names are a JSON object in the function attribute `vnpu.io`.
"""

from __future__ import annotations

import json
import re

import tvm
from tvm import relax

IO_ATTR = "vnpu.io"
PROFILE_ATTR = "vnpu.profile"


def identifier(name: str) -> str:
    """Return `name` as a Relax identifier: letters, digits and `_` only."""
    clean = re.sub(r"\W", "_", name, flags=re.ASCII) or "value"
    return f"_{clean}" if clean[0].isdigit() else clean


def span_of(name: str) -> tvm.ir.Span:
    """Return a span that carries a node name; empty positions, any characters in the name."""
    return tvm.ir.Span(tvm.ir.SourceName(name), 0, 0, 0, 0)


def call_name(call: relax.Expr) -> str | None:
    """Return the name of the source node a call came from, or None when it carries none."""
    span = getattr(call, "span", None)
    return None if span is None else str(span.source_name.name)


def with_name(call: tvm.ir.Call, name: str) -> tvm.ir.Call:
    """Return the call with a node name in its span."""
    return tvm.ir.Call(call.op, list(call.args), call.attrs, list(call.ty_args), span_of(name))


def io_attr(inputs: list[str], outputs: list[str]) -> str:
    """Return the value of the `vnpu.io` attribute for names in call order."""
    return json.dumps({"inputs": inputs, "outputs": outputs})


def _io(mod: tvm.IRModule) -> dict[str, list[str]] | None:
    attrs = mod["main"].attrs
    return json.loads(str(attrs[IO_ATTR])) if attrs and IO_ATTR in attrs else None


def input_names(mod: tvm.IRModule) -> list[str]:
    """Return the model's own input names in call order; parameter names if nobody recorded any."""
    io = _io(mod)
    return io["inputs"] if io else [str(param.name) for param in mod["main"].params]


def output_names(mod: tvm.IRModule) -> list[str]:
    """Return the model's own output names in result order; output_0, ... if nobody recorded any."""
    io = _io(mod)
    if io:
        return io["outputs"]
    result = mod["main"].ret_ty
    count = len(result.fields) if isinstance(result, relax.TupleType) else 1
    return [f"output_{index}" for index in range(count)]


def profile(mod: tvm.IRModule) -> str | None:
    """Return the semantics profile the module's origin asks for, or None for a float module."""
    attrs = mod["main"].attrs
    return str(attrs[PROFILE_ATTR]) if attrs and PROFILE_ATTR in attrs else None


def node_name(mod: tvm.IRModule, var_name: str) -> str:
    """Return the source node a variable of `main` came from; the variable's name if unknown."""
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            if binding.var.name == var_name and isinstance(binding, relax.VarBinding):
                return call_name(binding.value) or var_name
    return var_name
