"""Composites that move elements: slices, padding and transpositions of tensors of any rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tvm import relay

from codegen.graph import Tensor, quant_of
from codegen.ops.move import Move, transpose
from codegen.ops.pad import Pad
from codegen.ops.reshape import Reshape
from codegen.vector_kernel import Tile
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.context import Context, Placed
from tvm_vnpu.relay.layouts import NHWC, npu_axis, npu_transposition
from tvm_vnpu.relay.reader import Reader, integer_type, static_shape

_NPU_AXES = 3


@dataclass(frozen=True, slots=True)
class Cut:
    """What a result sees of an axis of `size`: `count` places from `begin` on, every `step`-th.

    Places outside the axis are padding.
    """

    size: int
    begin: int = 0
    step: int = 1
    count: int = 1

    @property
    def whole(self) -> bool:
        """Return whether the axis is seen as it is."""
        return (self.begin, self.step, self.count) == (0, 1, self.size)


AddCut = Callable[[Tensor, Tensor, Sequence[Cut]], None]
"""Appends the operator from an input to a result of three axes, each seen through its cut."""


def merged(cuts: Sequence[Cut]) -> tuple[Cut, Cut, Cut]:
    """Return cuts of axes in memory order as those of three axes, joined where contiguous.

    Raises Unsupported where more than three are left.
    """
    joined: list[Cut] = []
    for cut in reversed(cuts):
        inner = joined[-1] if joined else Cut(1)
        if inner.whole and (cut.step == 1 or inner.size == 1):
            size, begin, count = (n * inner.size for n in (cut.size, cut.begin, cut.count))
            joined[-1:] = [Cut(size, begin, cut.step, count)]
        elif cut.count == 1:
            begin = cut.begin * inner.size + inner.begin
            joined[-1:] = [replace(inner, size=cut.size * inner.size, begin=begin)]
        else:
            joined.append(cut)
    if len(joined) > _NPU_AXES:
        raise Unsupported(
            "the axes of an image must collapse to three: those next to each other that are kept"
            " whole",
            seen=[cut.size for cut in cuts],
        )
    first, second, third = (*(Cut(1),) * (_NPU_AXES - len(joined)), *reversed(joined))
    return first, second, third


def convert_slice(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a strided slice with positive steps along any axis but the batch."""
    integer_type(root)
    before, after = context.shape(root.args[0]), static_shape(root)
    cuts = _slice_cuts(root, before, after)
    if not cuts[0].whole:
        raise Unsupported("a slice must keep the batch", seen=f"{before} to {after}")

    def add(source: Tensor, target: Tensor, three: Sequence[Cut]) -> None:
        context.add(
            Move(
                name=target.name, inputs=(source,), outputs=(target,),
                source_names=context.names(root), begin=_each(cut.begin for cut in three),
                steps=_each(cut.step for cut in three),
            )
        )  # fmt: skip

    return _add_cut(context, root, name, cuts, add)


def convert_pad(context: Context, root: relay.Call, name: str) -> Placed:
    """Add padding by a constant on any side of any axis but the batch."""
    integer_type(root)
    before = context.shape(root.args[0])
    cuts = pad_cuts(root, before)
    if not cuts[0].whole:
        raise Unsupported("the batch must not be padded", seen=_widths(root)[0])
    value = pad_value(context.reader, root)

    def add(source: Tensor, target: Tensor, three: Sequence[Cut]) -> None:
        context.add(
            Pad(
                name=target.name, inputs=(source,), outputs=(target,),
                source_names=context.names(root), before=_each(-cut.begin for cut in three),
                value=value,
            )
        )  # fmt: skip

    return _add_cut(context, root, name, cuts, add)


def convert_transpose(context: Context, root: relay.Call, name: str) -> Placed:
    """Add a transposition; between NCHW and NHWC the NPU's tensor stays what it is."""
    integer_type(root)
    shape = context.shape(root.args[0])
    axes = _order(root, shape)
    if len(shape) > _NPU_AXES + 1:
        return _add_grouped(context, root, name, shape, axes)
    value = context.reader.value(root.args[0])
    placed = context.placed.get(value)
    found = npu_transposition(axes, placed.layout if placed else None, context.layout)
    source = context.activation(value, None, found.before)
    shape_after = context.npu_shape(static_shape(root), found.after)
    output = replace(source, name=name, shape=shape_after, data=None)
    names = context.names(root)
    if found.order == (0, 1, 2):
        context.add(Reshape(name=name, inputs=(source,), outputs=(output,), source_names=names))
    else:
        context.add(transpose(name, source, output, found.order, names))
    return Placed(output, found.after)


def pad_cuts(root: relay.Call, shape: Sequence[int]) -> list[Cut]:
    """Return the cut of each axis of a constant nn.pad; Unsupported for another mode."""
    if str(root.attrs.pad_mode) != "constant":
        raise Unsupported("padding must be constant", seen=str(root.attrs.pad_mode))
    return [
        Cut(size, -front, 1, front + size + back)
        for size, (front, back) in zip(shape, _widths(root), strict=True)
    ]


def pad_value(reader: Reader, root: relay.Call) -> int:
    """Return the raw integer that an nn.pad pads with; Unsupported if it is computed or none."""
    data = reader.require_constant(root.args[1], "the value of padding")
    value = float(data.reshape(-1)[0])
    if data.size != 1 or not value.is_integer():
        raise Unsupported("padding must have one integer value", seen=data.tolist())
    return int(value)


def _widths(root: relay.Call) -> list[tuple[int, int]]:
    return [(int(pair[0]), int(pair[1])) for pair in root.attrs.pad_width]


def _slice_cuts(root: relay.Call, before: Sequence[int], after: Sequence[int]) -> list[Cut]:
    """Return the cut of each axis: begins are normalised as TVM does, the result says how many."""
    attrs = root.attrs
    cuts = [Cut(size, 0, 1, size) for size in before]
    begins = [int(begin) for begin in attrs.begin]
    axes = range(len(begins)) if attrs.axes is None else [int(axis) for axis in attrs.axes]
    steps = [int(step) for step in attrs.strides] if str(attrs.slice_mode) == "end" else [1]
    steps += [steps[0] if len(steps) == 1 else 1] * (len(begins) - len(steps))
    for begin, step, axis in zip(begins, steps, axes):
        axis %= len(before)
        size = before[axis]
        if step < 1:
            raise Unsupported("the steps of a slice must be positive", seen=step)
        begin = min(max(begin + size if begin < 0 else begin, 0), size)
        cuts[axis] = Cut(size, begin, step if after[axis] > 1 else 1, after[axis])
    return cuts


def _order(root: relay.Call, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes of a transposition with the batch first; Unsupported if it moves."""
    rank = len(shape)
    given = root.attrs.axes
    axes = [int(a) % rank for a in given] if given else list(range(rank))[::-1]
    if axes[0] and shape[0] == shape[axes[0]] == 1:  # one axis of size 1 is as good as another
        axes[axes.index(0)], axes[0] = axes[0], 0
    if axes[0]:
        raise Unsupported("a transposition must keep the batch first", seen=axes)
    return tuple(axes)


def _add_cut(context: Context, root: relay.Call, name: str, cuts: list[Cut], add: AddCut) -> Placed:
    """Append what sees cuts of its input, by way of three axes where Relay has more."""
    layout = context.layout_of(root.args[0])
    source = context.activation(root.args[0], None, layout)
    output = context.result(name, root, quant_of(source), layout)
    if len(cuts) > _NPU_AXES + 1:
        three = merged(cuts[1:])
    else:
        whole = [Cut(size, 0, 1, size) for size in source.hwc]
        for axis, cut in enumerate(cuts[1:], start=1):
            whole[npu_axis(axis, len(cuts), layout)] = cut
        three = whole[0], whole[1], whole[2]
    x = _seen_as(context, source, [cut.size for cut in three], f"{name}.in")
    y = replace(output, shape=(1, *(cut.count for cut in three)))
    y = output if y.hwc == output.hwc else replace(y, name=f"{name}.out")
    add(x, y, three)
    if y is not output:
        context.add(Reshape(name=name, inputs=(y,), outputs=(output,)))
    return Placed(output, layout)


def _add_grouped(
    context: Context, root: relay.Call, name: str, shape: Sequence[int], axes: Sequence[int]
) -> Placed:
    """Append a transposition of more than four axes: those that stay together move as one."""
    groups: list[list[int]] = []
    for axis in (axis for axis in axes[1:] if shape[axis] > 1):
        if (
            groups
            and all(shape[i] == 1 for i in range(groups[-1][-1] + 1, axis))
            and (axis > groups[-1][-1])
        ):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) > _NPU_AXES:
        raise Unsupported(
            "the axes of an image must collapse to three: those next to each other that stay so",
            seen=list(axes),
        )
    groups = [[]] * (_NPU_AXES - len(groups)) + groups
    order = sorted(range(_NPU_AXES), key=lambda index: (groups[index] or [0])[0])
    sizes = [prod(shape[axis] for axis in group) for group in groups]
    source = context.activation(root.args[0], None, NHWC)
    x = _seen_as(context, source, [sizes[index] for index in order], f"{name}.in")
    output = context.result(name, root, quant_of(source), NHWC)
    y = replace(output, name=f"{name}.out", shape=(1, *sizes))
    axes_from = _each(order.index(index) for index in range(_NPU_AXES))
    context.add(transpose(y.name, x, y, axes_from, context.names(root)))
    context.add(Reshape(name=name, inputs=(y,), outputs=(output,)))
    return Placed(output, NHWC)


def _seen_as(context: Context, tensor: Tensor, extent: Sequence[int], name: str) -> Tensor:
    """Return a tensor whose bytes are seen as (rows, columns, channels)."""
    if tensor.hwc == tuple(extent):
        return tensor
    view = replace(tensor, name=name, shape=(1, *extent), data=None)
    context.add(Reshape(name=name, inputs=(tensor,), outputs=(view,)))
    return view


def _each(values: Iterable[int]) -> Tile:
    first, second, third = values
    return first, second, third
