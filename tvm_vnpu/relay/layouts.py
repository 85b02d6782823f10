"""How the axes of a Relay tensor are those of an NPU tensor, which is (1, H, W, C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tvm_vnpu.frontend.errors import Unsupported

NCHW, NHWC = "NCHW", "NHWC"
DATA_LAYOUTS = (NCHW, NHWC)
_TO_OHWI = MappingProxyType({"OIHW": (0, 2, 3, 1), "HWIO": (3, 0, 1, 2), "OHWI": (0, 1, 2, 3)})


def check_layout(layout: str) -> str:
    """Return a data layout; Unsupported unless it is NCHW or NHWC."""
    if layout not in DATA_LAYOUTS:
        raise Unsupported("the data layout must be NCHW or NHWC", seen=layout)
    return layout


def npu_shape(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    """Return the per-image shape of a Relay tensor; `layout` matters where it has four axes.

    From the fourth on, more axes are one: they follow each other in memory.
    """
    if len(shape) < 2:
        raise Unsupported(
            "tensors must have 2 axes or more, the first of them the batch", seen=tuple(shape)
        )
    if len(shape) == 4 and layout == NCHW:
        return (1, shape[2], shape[3], shape[1])
    if len(shape) > 4:
        return (1, *shape[1:3], prod(shape[3:]))
    return (1, *shape[1:])


def whole_shape(shape: Sequence[int], layout: str) -> tuple[int, ...]:
    """Return the shape of a Relay tensor whose first axis is no batch: one image holds all.

    Up to three axes are (H, W, C), from the last on; of more, the first must be 1.
    """
    if len(shape) < 2 or shape[0] == 1:
        return npu_shape(shape, layout)
    if len(shape) > 3:
        raise Unsupported("more than three axes must be of one image", seen=tuple(shape))
    return (1, *shape)


def npu_axis(axis: int, rank: int, layout: str) -> int:
    """Return which of (H, W, C) an axis is; Unsupported for the batch."""
    axis %= rank
    if axis == 0:
        raise Unsupported("the axis must not be the batch", seen=f"axis {axis}")
    if rank == 4 and layout == NCHW:
        return (2, 0, 1)[axis - 1]
    if rank > 4:
        if axis > 3:
            raise Unsupported("the axis must be one of the first four", seen=f"axis {axis}")
        return axis - 1
    return axis + 3 - rank


@dataclass(frozen=True, slots=True)
class Transposition:
    """A Relay transposition as the NPU sees it: layouts `before` and `after`, and the order.

    Axis k of the result's (H, W, C) is axis `order[k]` of the input's.
    """

    before: str
    after: str
    order: tuple[int, int, int]


def npu_transposition(axes: Sequence[int], known: str | None, default: str) -> Transposition:
    """Return a transposition of up to four axes; `known` is the input's layout, if any.

    Where layouts can be named such that nothing moves, they are; else the default serves.
    """
    befores = [known] if known else [default, *(x for x in DATA_LAYOUTS if x != default)]
    pairs = [(before, after) for before in befores for after in DATA_LAYOUTS]
    found = [Transposition(b, a, _order(axes, b, a)) for b, a in pairs]
    still = [option for option in found if option.order == (0, 1, 2)]
    if len(axes) == 4 and still:
        return still[0]
    before = known or default
    return Transposition(before, default, _order(axes, before, default))


def _order(axes: Sequence[int], before: str, after: str) -> tuple[int, int, int]:
    rank = len(axes)
    order = [0, 1, 2]
    for axis in range(1, rank):
        order[npu_axis(axis, rank, after)] = npu_axis(axes[axis], rank, before)
    return order[0], order[1], order[2]


def channel_axis(rank: int, layout: str) -> int:
    """Return which axis of a Relay tensor is the channels."""
    return 1 if rank == 4 and layout == NCHW else rank - 1


def constant_as_npu(
    data: NDArray[np.generic], rank: int, layout: str, whole: bool = False
) -> NDArray[np.generic]:
    """Return a constant that broadcasts to `rank` axes as an NPU tensor of one image.

    `whole`: its first axis is no batch, see `whole_shape`.
    """
    if rank > 4:
        if data.size > 1:
            raise Unsupported("beside more than 4 axes a constant must be one value")
        return data.reshape(1, 1, 1, 1)
    shaped = data.reshape((1,) * (rank - data.ndim) + data.shape)
    if whole and rank == shaped.ndim < 4:
        return np.ascontiguousarray(shaped.reshape(whole_shape(shaped.shape, layout)))
    if shaped.ndim != rank or shaped.shape[0] != 1:
        raise Unsupported("constants must not have a batch of their own", seen=data.shape)
    if rank == 4 and layout == NCHW:
        shaped = shaped.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(shaped)


def per_channel(data: NDArray[np.generic], rank: int, axis: int) -> NDArray[np.int64]:
    """Return an integer constant along the channels of a tensor as a vector, or as 1 value."""
    shape = (1,) * (rank - data.ndim) + data.shape
    if any(size > 1 and place != axis for place, size in enumerate(shape)):
        raise Unsupported("constants must be one value, or one per channel", seen=data.shape)
    return data.reshape(-1).astype(np.int64)


def ohwi_weight(
    data: NDArray[np.generic], kernel_layout: str, channels: int
) -> NDArray[np.generic]:
    """Return a kernel as [oc][kh][kw][ic / groups]; `channels` is the number of outputs."""
    if kernel_layout == "HWOI":  # depthwise: [kh][kw][ic][multiplier]
        height, width = data.shape[:2]
        return np.ascontiguousarray(data.reshape(height, width, channels).transpose(2, 0, 1))[
            ..., None
        ]
    if kernel_layout not in _TO_OHWI:
        raise Unsupported("the kernel layout must be OIHW, HWIO, OHWI or HWOI", seen=kernel_layout)
    weight = np.ascontiguousarray(data.transpose(_TO_OHWI[kernel_layout]))
    if len(weight) != channels:
        raise Unsupported("the kernel must have one filter per output channel", seen=data.shape)
    return weight
