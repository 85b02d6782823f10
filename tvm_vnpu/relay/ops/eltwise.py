"""Element-wise composites: clamp(op(a, b)), quantised, or a comparison of raw integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from tvm import relay

from codegen.graph import QuantParams, Tensor
from codegen.ops.eltwise import Eltwise, eltwise
from codegen.profiles import Profile, scaling
from codegen.quantization import real_scale
from runtime_sim.isa.fields import EltwiseOp
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import UNKNOWN, Context, Placed
from tvm_vnpu.relay.layouts import channel_axis
from tvm_vnpu.relay.ops import clamps
from tvm_vnpu.relay.ops.requantizing import check_range, within
from tvm_vnpu.relay.reader import integer_type, static_shape

QUANTISED = MappingProxyType(
    {"qnn.add": EltwiseOp.ADD, "qnn.subtract": EltwiseOp.SUB, "qnn.mul": EltwiseOp.MUL}
)
COMPARED = MappingProxyType({"maximum": EltwiseOp.MAX, "minimum": EltwiseOp.MIN})


def convert_eltwise(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a quantised addition, subtraction or product, and the clamps after it."""
    reader, rank = context.reader, len(static_shape(root))
    layout = context.layout_of(*root.args)
    expr, clamp = clamps.strip(reader, root, channel_axis(rank, layout))
    call = reader.require(expr, *QUANTISED)
    integer_type(call)
    layout = context.layout_of(call.args[0], call.args[1])
    args = call.args
    quants = (reader.quant(args[2], args[3]), reader.quant(args[4], args[5]))
    out = reader.quant(args[6], args[7])
    tensors = _tensors(context, root, name, args[:2], quants, out, layout)
    op = QUANTISED[str(call.op.name)]
    return _add(context, name, op, tensors, clamp, root, layout)


def convert_comparison(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a maximum or minimum of two tensors, which Relay compares as raw integers."""
    layout = context.layout_of(*root.args)
    integer_type(root)
    quants = (UNKNOWN, UNKNOWN)
    tensors = _tensors(context, root, name, root.args, quants, UNKNOWN, layout)
    op = COMPARED[str(root.op.name)]
    return _add(context, name, op, tensors, clamps.limits(tensors[2].dtype), root, layout)


def _tensors(
    context: Context, root: relay.Call, name: str, args: Sequence[relay.Expr],
    quants: tuple[QuantParams, QuantParams], out: QuantParams, layout: str,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    rank = len(context.shape(root))
    a, b = (
        context.operand(arg, quant, layout, rank) for arg, quant in zip(args, quants, strict=True)
    )
    return a, b, context.result(name, root, out, layout)


def _add(
    context: Context, name: str, op: EltwiseOp, tensors: tuple[Tensor, Tensor, Tensor],
    clamp: clamps.Clamp, root: relay.Call, layout: str,
) -> Placed:  # fmt: skip
    """Append the operator; a smaller first operand is swapped where order is free."""
    a, b, out = tensors
    if a.hwc != out.hwc and op != EltwiseOp.SUB:
        a, b = b, a
    if np.unique(clamp.low).size > 1 or np.unique(clamp.high).size > 1:
        raise Unsupported("an activation must clamp all channels alike")
    limits = int(clamp.low[0]), int(clamp.high[0])
    profile = context.semantics.of()
    operator = eltwise(name, op, (a, b, out), profile, limits, context.names(root))
    if context.semantics.is_relay:
        operator = _as_tvm_lowers(context, operator, profile)
    context.add(operator)
    return Placed(out, layout)


def _as_tvm_lowers(context: Context, operator: Eltwise, profile: Profile) -> Eltwise:
    """Return the operator with TVM's scale of a product, float32(sa * sb); check all ranges."""
    a, b, out = (real_scale(tensor) for tensor in operator.tensors)
    if operator.op == EltwiseOp.MUL:
        ratio = float(np.float32(a) * np.float32(b)) / out
        scaled = scaling(profile.rounding, np.array([ratio]))
        check_range(context.semantics, scaled, within(255 * 255))
        return replace(operator, scales=(*operator.scales[:2], ratio))
    for scale in (a, b):
        scaled = scaling(profile.rounding, np.array([scale / out]))
        check_range(context.semantics, scaled, within(2 * 255))
    return operator
