"""Keep the bounds of integer clips within their type, or TVM's own build fails.

FakeQuantizationToInteger turns the bounds of a clip into integers without a look at the type
(relu6 at a scale of 6 / 206 becomes 206 on int8); TVM then refuses to cast the constant.
"""

from __future__ import annotations

from tvm import relay

from tvm_vnpu.relay.ops.clamps import limits
from tvm_vnpu.relay.reader import dtype_of
from tvm_vnpu.relay.rewrite import operator_name

_TYPES = ("int8", "uint8", "int32")


def limited_clip(old: relay.Call, new: relay.Call) -> relay.Expr:
    """Return a clip of integers with its bounds limited to its type: it clips the same values."""
    if operator_name(old) != "clip" or dtype_of(old) not in _TYPES:
        return new
    whole = limits(dtype_of(old))
    low, high = (
        min(max(int(bound), int(whole.low[0])), int(whole.high[0]))
        for bound in (old.attrs.a_min, old.attrs.a_max)
    )
    if (low, high) == (old.attrs.a_min, old.attrs.a_max):
        return new
    clip = relay.clip(new.args[0], low, high)
    return relay.Call(clip.op, clip.args, clip.attrs, clip.type_args, old.span)
