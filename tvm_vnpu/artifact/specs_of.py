"""Read a Relax module's inputs and outputs."""

from __future__ import annotations

import tvm
from tvm import relax

from runtime_sim.errors import VnpuError
from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.relax.names import input_names, output_names


def input_specs(mod: tvm.IRModule) -> tuple[TensorSpec, ...]:
    """Return the inputs by the model's own names, in call order."""
    params = mod["main"].params
    return tuple(_spec(name, param.ty) for name, param in zip(input_names(mod), params))


def output_specs(mod: tvm.IRModule) -> tuple[TensorSpec, ...]:
    """Return the outputs by the model's own names, in result order."""
    result = mod["main"].ret_ty
    types = list(result.fields) if isinstance(result, relax.TupleType) else [result]
    return tuple(_spec(name, ty) for name, ty in zip(output_names(mod), types))


def _spec(name: str, ty: tvm.ir.Type) -> TensorSpec:
    dims = getattr(ty, "shape", None)
    if dims is None:
        raise VnpuError(
            f"the shape of {name!r} is not known",
            seen=ty,
            fix="give the input shapes with --shape",
        )
    shape = tuple(int(dim) if hasattr(dim, "value") else None for dim in dims)
    return TensorSpec(name, shape, str(ty.dtype))
