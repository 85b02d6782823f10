"""Which Relax operators the quantiser handles, and how their tensors get their ranges."""

from __future__ import annotations

import enum
from collections.abc import Callable

import tvm


class Role(enum.Enum):
    """How an operator takes part in quantisation."""

    ARITHMETIC = "inputs and result have ranges of their own"
    MOVE = "the result shares the range of the input"
    CLAMP = "folds into the operator before it; on its own it has a range of its own"


def _always(call: tvm.ir.Call) -> bool:
    return True


def _is_spatial_mean(call: tvm.ir.Call) -> bool:
    rank = len(call.args[0].ty.shape)
    axes = call.attrs.axis
    return rank == 4 and axes is not None and sorted(int(a) % rank for a in axes) == [2, 3]


def _is_channel_first(call: tvm.ir.Call) -> bool:
    return call.attrs.layout == "NCHW"


def _has_scalar_bound(call: tvm.ir.Call) -> bool:
    bound = call.args[1]
    return isinstance(bound, tvm.ir.GenericConst) and bound.value.numpy().size == 1


_ROLES: dict[str, tuple[Role, Callable[[tvm.ir.Call], bool]]] = {
    "relax.add": (Role.ARITHMETIC, _always),
    "relax.concat": (Role.ARITHMETIC, _always),
    "relax.matmul": (Role.ARITHMETIC, _always),
    "relax.mean": (Role.ARITHMETIC, _is_spatial_mean),
    "relax.nn.avg_pool2d": (Role.ARITHMETIC, _is_channel_first),
    "relax.clip": (Role.CLAMP, _always),
    "relax.maximum": (Role.CLAMP, _has_scalar_bound),
    "relax.minimum": (Role.CLAMP, _has_scalar_bound),
    "relax.nn.relu": (Role.CLAMP, _always),
    "relax.expand_dims": (Role.MOVE, _always),
    "relax.flatten": (Role.MOVE, _always),
    "relax.nn.max_pool2d": (Role.MOVE, _is_channel_first),
    "relax.permute_dims": (Role.MOVE, _always),
    "relax.reshape": (Role.MOVE, _always),
    "relax.squeeze": (Role.MOVE, _always),
}


def role_of(value: object) -> Role | None:
    """Return the role of an expression's operator, or None for one that stays in float."""
    if not isinstance(value, tvm.ir.Call) or not isinstance(value.op, tvm.ir.Op):
        return None
    role, accepts = _ROLES.get(str(value.op.name), (None, _always))
    return role if role is not None and accepts(value) else None
