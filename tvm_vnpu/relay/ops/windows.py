"""How Relay's pools slide: windows, strides and padding of every kind of pool."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relay

from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context
from tvm_vnpu.relay.layouts import NCHW, check_layout, npu_axis, npu_shape
from tvm_vnpu.relay.reader import static_shape

MAXIMA = ("nn.max_pool2d", "nn.global_max_pool2d", "nn.adaptive_max_pool2d")
AVERAGES = ("nn.avg_pool2d", "nn.global_avg_pool2d", "nn.adaptive_avg_pool2d", "mean")
_ADAPTIVE = ("nn.adaptive_max_pool2d", "nn.adaptive_avg_pool2d")


@dataclass(frozen=True, slots=True)
class Window:
    """A pool's window over (rows, columns) of an input of `extent`, in a layout.

    `padding`: top and left. `full`: whether each window counts all its elements.
    """

    extent: tuple[int, int]
    size: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    layout: str
    include_pad: bool = False
    full: bool = True

    @property
    def count(self) -> int:
        """Return the number of elements of a window."""
        return self.size[0] * self.size[1]


def read_window(context: Context, call: relay.Call) -> Window:
    """Return the window of a pool or a mean; Unsupported if the NPU's pools cannot slide so."""
    name = str(call.op.name)
    if name == "mean":
        return _mean(context, call)
    layout = check_layout(str(call.attrs.layout))
    height, width, _ = npu_shape(context.shape(call.args[0]), layout)[1:]
    out = npu_shape(static_shape(call), layout)[1:]
    if name.startswith("nn.global"):
        return Window((height, width), (height, width), (1, 1), (0, 0), layout)
    if name in _ADAPTIVE:
        if height % out[0] or width % out[1]:
            raise Unsupported(
                "an adaptive pool must divide its input evenly",
                seen=f"{height}x{width} to {out[0]}x{out[1]}",
            )
        size = (height // out[0], width // out[1])
        return Window((height, width), size, size, (0, 0), layout)
    return _pool(call, layout, (height, width), (out[0], out[1]))


def _pool(call: relay.Call, layout: str, extent: tuple[int, int], out: tuple[int, int]) -> Window:
    attrs = call.attrs
    if any(int(d) != 1 for d in attrs.dilation):
        raise Unsupported("pools must not be dilated", seen=[int(d) for d in attrs.dilation])
    size = int(attrs.pool_size[0]), int(attrs.pool_size[1])
    strides = int(attrs.strides[0]), int(attrs.strides[1])
    before = pads(attrs.padding)
    include = bool(getattr(attrs, "count_include_pad", False))
    counted = before[2:] if include else (0, 0)
    full = include or not any(before[:2])
    for axis in (0, 1):
        end = (out[axis] - 1) * strides[axis] + size[axis] - before[axis]
        full = full and end <= extent[axis] + counted[axis]
    return Window(extent, size, strides, before[:2], layout, include, full)


def _mean(context: Context, call: relay.Call) -> Window:
    shape = context.shape(call.args[0])
    layout = context.layout_of(call.args[0]) if len(shape) == 4 else NCHW
    rank, attrs = len(shape), call.attrs
    axes = sorted({npu_axis(int(axis), rank, layout) for axis in attrs.axis or ()})
    whole = (1,) * (4 - rank) + npu_shape(shape, layout)[1:]
    missing = [axis for axis in (0, 1) if axis not in axes and whole[axis] > 1]
    if bool(attrs.exclude) or not axes or 2 in axes or missing:
        raise Unsupported("a mean must be over rows and columns", seen=f"axes {list(attrs.axis)}")
    extent = whole[0], whole[1]
    return Window(extent, extent, (1, 1), (0, 0), layout)


def pads(padding: object) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) of a padding attribute of 1, 2 or 4 values."""
    values = tuple(int(value) for value in padding)  # type: ignore[attr-defined]
    repeated = values * (4 // len(values))
    return repeated[0], repeated[1], repeated[2], repeated[3]
