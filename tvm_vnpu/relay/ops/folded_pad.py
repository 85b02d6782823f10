"""Padding that a convolution or a max pool takes in: its own padding has the same value."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relay

from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context
from tvm_vnpu.relay.layouts import npu_axis
from tvm_vnpu.relay.ops.moves import pad_cuts, pad_value
from tvm_vnpu.relay.reader import static_shape

Sides = tuple[int, int, int, int]


def folded_padding(
    context: Context, pad: relay.Call, layout: str, own: Sequence[int], value: int,
    reach: tuple[int, int],
) -> Sides:  # fmt: skip
    """Return (top, left, bottom, right) of a reader's `own` padding and that of an nn.pad before.

    `value`: what the reader pads with; `reach`: its dilated kernel, which padding must stay below.
    Raises Unsupported where the two are not one padding.
    """
    shape = static_shape(context.reader.value(pad.args[0]))
    cuts = pad_cuts(pad, shape)
    front, back = [0, 0, 0], [0, 0, 0]
    if not cuts[0].whole:
        raise Unsupported("the batch must not be padded")
    for axis, cut in enumerate(cuts[1:], start=1):
        place = npu_axis(axis, len(cuts), layout)
        front[place], back[place] = -cut.begin, cut.count - cut.size + cut.begin
    if front[2] or back[2]:
        raise Unsupported("padded channels do not fold")
    if pad_value(context.reader, pad) != value:
        raise Unsupported("padding must have the value that its reader pads with", seen=value)
    top, left, bottom, right = (
        a + b for a, b in zip(own, (*front[:2], *back[:2]), strict=True)
    )  # fmt: skip
    if max(top, bottom) >= reach[0] or max(left, right) >= reach[1]:
        raise Unsupported("padding must be smaller than the kernel", seen=(top, left))
    return top, left, bottom, right
