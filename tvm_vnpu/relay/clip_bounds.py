"""Keep the bounds of integer clips within their type, or TVM's own build fails.

FakeQuantizationToInteger turns the bounds of a clip into integers without a look at the type
(relu6 at a scale of 6 / 206 becomes 206 on int8); TVM then refuses to cast the constant.
"""

from __future__ import annotations

from tvm import relay

from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.ops.clamps import bounds, limits
from tvm_vnpu.relay.reader import dtype_of
from tvm_vnpu.relay.rewrite import operator_name

_TYPES = ("int8", "uint8", "int32")


def limited_clip(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return a clip of integers with its bounds limited to its type: it clips the same values."""
    if operator_name(old) != "clip" or dtype_of(old) not in _TYPES:
        return new
    try:
        clamp = bounds(old, limits(dtype_of(old)))
    except Unsupported:
        return new
    low, high = int(clamp.low[0]), int(clamp.high[0])
    if (low, high) == (old.attrs.a_min, old.attrs.a_max):
        return new
    clip = relay.clip(new.args[0], low, high)
    return relay.Call(clip.op, clip.args, clip.attrs, clip.type_args, old.span)
