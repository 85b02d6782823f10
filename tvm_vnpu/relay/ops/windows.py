"""How Relay's pools slide: windows, strides and padding of every kind of pool."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import relay

from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context
from tvm_vnpu.relay.layouts import DATA_LAYOUTS, check_layout, npu_axis, npu_shape
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


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a pool's result: `out` windows (rows, columns) that slide from `begin` on.

    The window's extent is what they read of the input.
    """

    begin: tuple[int, int]
    window: Window
    out: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Run:
    """Cells of equal `size` along one axis, `stride` apart: the first begins at `begin`."""

    begin: int
    size: int
    stride: int
    out: int

    @property
    def extent(self) -> int:
        return (self.out - 1) * self.stride + self.size


def read_pieces(context: Context, call: relay.Call) -> tuple[tuple[Piece, ...], ...]:
    """Return the pieces of a pool or a mean by row and column: one, unless its cells are uneven.

    Raises Unsupported if the NPU's pools cannot slide so.
    """
    if str(call.op.name) in _ADAPTIVE:
        return _adaptive(context, call)
    window = _read_window(context, call)
    out = (1, 1)
    if str(call.op.name) != "mean":
        height, width, _ = npu_shape(static_shape(call), window.layout)[1:]
        out = height, width
    return ((Piece((0, 0), window, out),),)


def _read_window(context: Context, call: relay.Call) -> Window:
    name = str(call.op.name)
    if name == "mean":
        return _mean(context, call)
    layout = check_layout(str(call.attrs.layout))
    height, width, _ = npu_shape(context.shape(call.args[0]), layout)[1:]
    if name.startswith("nn.global"):
        return Window((height, width), (height, width), (1, 1), (0, 0), layout)
    out = npu_shape(static_shape(call), layout)[1:]
    return _pool(call, layout, (height, width), (out[0], out[1]))


def _adaptive(context: Context, call: relay.Call) -> tuple[tuple[Piece, ...], ...]:
    """Return an adaptive pool's pieces: cell i of n is floor(i s / n) to ceil((i + 1) s / n)."""
    layout = check_layout(str(call.attrs.layout))
    height, width, _ = npu_shape(context.shape(call.args[0]), layout)[1:]
    out = npu_shape(static_shape(call), layout)[1:]
    return tuple(
        tuple(_piece(row, col, layout) for col in runs(width, out[1]))
        for row in runs(height, out[0])
    )


def _piece(row: _Run, col: _Run, layout: str) -> Piece:
    extent, size = (row.extent, col.extent), (row.size, col.size)
    window = Window(extent, size, (row.stride, col.stride), (0, 0), layout)
    return Piece((row.begin, col.begin), window, (row.out, col.out))


def runs(size: int, out: int) -> tuple[_Run, ...]:
    """Return the cells of an adaptive pool along an axis, those of one size and stride as one."""
    found: list[_Run] = []
    for index in range(out):
        begin, end = index * size // out, -(-(index + 1) * size // out)
        last = found[-1] if found else None
        step = begin - (last.begin + (last.out - 1) * last.stride) if last else 0
        fits = last is not None and last.size == end - begin and step > 0
        if last is not None and fits and (last.out == 1 or last.stride == step):
            found[-1] = _Run(last.begin, last.size, step, last.out + 1)
        else:
            found.append(_Run(begin, end - begin, 1, 1))
    return tuple(found)


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
    """Return the window of a mean: its axes are rows and columns in one of the layouts."""
    shape, attrs = context.shape(call.args[0]), call.attrs
    if len(shape) > 4:
        raise Unsupported("a mean must be of 4 axes at most", seen=f"{len(shape)} axes")
    own = context.layout_of(call.args[0])
    for layout in (own, *(x for x in DATA_LAYOUTS if x != own and len(shape) == 4)):
        seen = {npu_axis(int(axis), len(shape), layout) for axis in attrs.axis or ()}
        whole = (1, 1, *context.npu_shape(shape, layout))[-3:]
        missing = [axis for axis in (0, 1) if axis not in seen and whole[axis] > 1]
        if not (bool(attrs.exclude) or not seen or 2 in seen or missing):
            extent = whole[0], whole[1]
            return Window(extent, extent, (1, 1), (0, 0), layout)
    raise Unsupported("a mean must be over rows and columns", seen=f"axes {list(attrs.axis or ())}")


def pads(padding: object) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) of a padding attribute of 1, 2 or 4 values."""
    values = tuple(int(value) for value in padding)  # type: ignore[attr-defined]
    repeated = values * (4 // len(values))
    return repeated[0], repeated[1], repeated[2], repeated[3]
