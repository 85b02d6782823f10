"""Element-wise composites: quantize(activation(op(dq(a), dq(b))))."""

from __future__ import annotations

import tvm

from codegen.ops.eltwise import eltwise
from runtime_sim.isa.fields import EltwiseOp
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relax.context import Context
from tvm_vnpu.relax.ops import activation

OPERATIONS = {
    "relax.add": EltwiseOp.ADD,
    "relax.subtract": EltwiseOp.SUB,
    "relax.multiply": EltwiseOp.MUL,
    "relax.minimum": EltwiseOp.MIN,
    "relax.maximum": EltwiseOp.MAX,
}


def convert_eltwise(context: Context, root: tvm.ir.Call, name: str) -> None:
    """Add an element-wise composite; a smaller first operand is swapped where order is free."""
    reader = context.reader
    inner, bounds = activation.strip(reader, root.args[0])
    call = reader.call(inner, *OPERATIONS)
    if call is None:
        raise Unsupported("the composite holds no element-wise operator")
    op, rank = OPERATIONS[str(call.op.name)], len(root.ty.shape)
    a, b = (context.activation(reader.dequantized(arg), rank) for arg in call.args)
    quant, dtype = reader.quantize_params(root)
    output = context.result(name, root, dtype, quant)
    if a.hwc != output.hwc and op != EltwiseOp.SUB:
        a, b = b, a
    context.add(
        eltwise(
            name, op, (a, b, output), context.profile, activation.clamp(bounds, dtype, quant),
            reader.names(root),
        )
    )  # fmt: skip
