"""Which commands must still run for the STOREs that the passes could not explain."""

from __future__ import annotations

from collections.abc import Sequence

from runtime_sim.merge.affine import reach
from runtime_sim.templates import Template
from runtime_sim.views import ACC, SPM, View

Span = tuple[int, int]


def needed(
    commands: Sequence[tuple[int, Template, tuple[int, ...]]], kept: Sequence[int]
) -> list[int]:
    """Return the positions of the STOREs in `kept` and of all commands whose bytes they may use.

    One walk against stream order, with the SPM and ACC bytes still wanted. A command that may write
    wanted bytes is needed; bytes it certainly writes are wanted no longer before it.
    """
    roots, found = set(kept), []
    wanted: dict[int, list[Span]] = {SPM: [], ACC: []}
    for position, template, offsets in reversed(commands) if kept else ():
        writes = list(zip(template.views, offsets, strict=True))[template.write :]
        reads = list(zip(template.views, offsets, strict=True))[: template.write]
        spans = [(view, _span(view, offset)) for view, offset in writes if view.memory in wanted]
        if position not in roots and not any(
            _meets(wanted[view.memory], span) for view, span in spans
        ):
            continue
        found.append(position)
        for view, span in spans:
            if _dense(view):
                wanted[view.memory] = _without(wanted[view.memory], span)
        for view, offset in reads:
            if view.memory in wanted and 0 not in view.shape:
                wanted[view.memory] = _with(wanted[view.memory], _span(view, offset))
    return found[::-1]


def _span(view: View, offset: int) -> Span:
    if 0 in view.shape:
        return offset, offset
    return reach(offset, view.shape, view.strides, view.dtype.itemsize)


def _dense(view: View) -> bool:
    """Tell whether a view covers every byte of its extent."""
    low, high = view.extent
    size = view.dtype.itemsize
    for count in view.shape:
        size *= count
    span = view.dtype.itemsize
    for stride, count in sorted(zip(view.strides, view.shape, strict=True)):
        if count > 1 and stride != span:
            return False
        span *= count
    return size == high - low


def _meets(spans: Sequence[Span], span: Span) -> bool:
    return any(low < span[1] and high > span[0] for low, high in spans)


def _without(spans: Sequence[Span], cut: Span) -> list[Span]:
    """Return the spans with the bytes of `cut` taken out."""
    left = [(low, min(high, cut[0])) for low, high in spans]
    right = [(max(low, cut[1]), high) for low, high in spans]
    return [span for span in dict.fromkeys((*left, *right)) if span[0] < span[1]]


def _with(spans: Sequence[Span], new: Span) -> list[Span]:
    """Return the spans joined with one more."""
    low, high, rest = *new, []
    for span in spans:
        if span[0] <= high and span[1] >= low:
            low, high = min(low, span[0]), max(high, span[1])
        else:
            rest.append(span)
    return [*rest, (low, high)]
