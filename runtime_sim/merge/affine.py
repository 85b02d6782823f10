"""Exact arithmetic on strided boxes: where a window on a copy lies in the original.

A transfer copies a box element by element, so an address inside its destination has one mixed-radix
expansion in the box's strides, and the same digits give the source address. A window whose strides
expand without a carry therefore has a source window with constant strides.
"""

from __future__ import annotations

from functools import lru_cache

Dim = tuple[int, int, int]
"""One dimension of a box: (count, stride in the copy, stride in the original)."""


@lru_cache(maxsize=4096)
def nested_dims(
    counts: tuple[int, ...], inner: tuple[int, ...], outer: tuple[int, ...]
) -> tuple[Dim, ...] | None:
    """Return a box's dimensions by falling stride, touching ones merged; None if they overlap.

    `inner` are the strides on the side that is looked at, `outer` those on the other side. With
    every stride at least the span of the smaller ones, an address has at most one expansion.
    """
    rows = sorted((s, n, t) for n, s, t in zip(counts, inner, outer, strict=True) if n > 1)
    dims: list[Dim] = []
    span = 1
    for stride, count, target in rows:
        if stride < span:
            return None
        span = stride * count
        if dims and _continues(dims[-1], stride, target):
            last = dims[-1]
            dims[-1] = (last[0] * count, last[1], last[2])
        else:
            dims.append((count, stride, target))
    return tuple(reversed(dims))


def _continues(last: Dim, stride: int, target: int) -> bool:
    count, step, image = last
    return stride == count * step and target == count * image


@lru_cache(maxsize=65536)
def through(
    start: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int, dims: tuple[Dim, ...]
) -> tuple[int, tuple[int, ...]] | None:
    """Return (start, strides) in the original of a window `start` bytes into the copy.

    `item` is the bytes of one element, which must lie together on both sides. None if the window
    leaves the box or its image has no constant strides. Dimensions of one element get stride 0.
    """
    expansions = [_expand(start, dims)]
    counts = [2]
    for count, stride in (*zip(shape, strides, strict=True), (item, 1)):
        if count > 1:
            expansions.append(_expand(stride, dims))
            counts.append(count)
    if any(digits is None for digits in expansions):
        return None
    images = [0] * len(expansions)
    for position, (count, _, target) in enumerate(dims):
        last = 0
        for number, (digits, steps) in enumerate(zip(expansions, counts, strict=True)):
            assert digits is not None
            last += digits[position] * (steps - 1)
            images[number] += digits[position] * target
        if last >= count:
            return None
    moved = iter(images[1:])
    result = tuple(next(moved) if count > 1 else 0 for count in shape)
    if item > 1 and next(moved) != 1:
        return None
    return images[0], result


def _expand(value: int, dims: tuple[Dim, ...]) -> tuple[int, ...] | None:
    """Return the digits of `value` in the box's strides; None if there is a remainder."""
    digits = []
    for _, stride, _ in dims:
        digit, value = divmod(value, stride)
        digits.append(digit)
    return tuple(digits) if value == 0 else None


def reach(
    start: int, shape: tuple[int, ...], strides: tuple[int, ...], item: int
) -> tuple[int, int]:
    """Return (first, last + 1) of the bytes of a window; all counts are at least 1."""
    low = high = start
    for count, stride in zip(shape, strides, strict=True):
        step = (count - 1) * stride
        if step < 0:
            low += step
        else:
            high += step
    return low, high + item
