"""conv2d_transpose composites: clamp(requantize(clamp(bias + conv2d_transpose(x, w))))."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from tvm import relay

from codegen.ops.conv2d_transpose import ConvTranspose2D
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, Placed
from tvm_vnpu.relay.layouts import check_layout
from tvm_vnpu.relay.ops.window import is_depthwise, layer_fields, match
from tvm_vnpu.relay.ops.windows import pads
from tvm_vnpu.relay.reader import static_shape

_TO_IHWO = MappingProxyType(
    {"IOHW": (0, 2, 3, 1), "OIHW": (1, 2, 3, 0), "HWIO": (2, 0, 1, 3), "HWOI": (3, 0, 1, 2)}
)


def convert_conv2d_transpose(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a conv2d_transpose composite; Unsupported says why it cannot be."""
    m = match(context, root, "qnn.conv2d_transpose")
    attrs = m.call.attrs
    layout = check_layout(str(attrs.data_layout))
    if str(attrs.out_layout) not in ("", layout):
        raise Unsupported("input and output must have one layout", seen=str(attrs.out_layout))
    if any(int(d) != 1 for d in attrs.dilation):
        raise Unsupported(
            "transposed convolutions must not be dilated", seen=[int(d) for d in attrs.dilation]
        )
    groups = int(attrs.groups)
    data = context.reader.require_constant(m.call.args[1], "weights")
    weight = transposed_weight(data, str(attrs.kernel_layout), groups)
    if len(weight) != len(m.bias):
        raise Unsupported("the kernel must have one filter per output channel", seen=data.shape)
    in_channels = static_shape(context.reader.value(m.call.args[0]))[m.axis]
    operator = ConvTranspose2D(
        strides=(int(attrs.strides[0]), int(attrs.strides[1])),
        padding=pads(attrs.padding)[:2],
        groups=groups,
        depthwise=is_depthwise(context, groups, in_channels),
        **layer_fields(context, m, name, weight, layout),  # type: ignore[arg-type]
    )
    context.add(operator)
    return Placed(operator.outputs[0], layout)


def transposed_weight(
    data: NDArray[np.generic], kernel_layout: str, groups: int
) -> NDArray[np.generic]:
    """Return a kernel (I, O / groups, H, W) in any of its layouts as [oc][kh][kw][ic / groups].

    Output channel o of a group reads the input channels of that group.
    """
    if kernel_layout not in _TO_IHWO:
        raise Unsupported(f"the kernel layout must be {', '.join(_TO_IHWO)}", seen=kernel_layout)
    kernel = data.transpose(_TO_IHWO[kernel_layout])
    inputs, height, width, outputs = kernel.shape
    grouped = kernel.reshape(groups, inputs // groups, height, width, outputs)
    ordered = grouped.transpose(0, 4, 2, 3, 1).reshape(
        groups * outputs, height, width, inputs // groups
    )
    return np.ascontiguousarray(ordered)
