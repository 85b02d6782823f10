"""The regions that a door's hook compiles, for whoever asks to see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from codegen.program import NpuProgram


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRegion:
    """A region that the hook compiled: its symbol, program and C text."""

    symbol: str
    program: NpuProgram
    source: str


_collector: ContextVar[list[CompiledRegion] | None] = ContextVar("vnpu_regions", default=None)


@contextmanager
def collect_regions() -> Iterator[list[CompiledRegion]]:
    """Collect the regions that are compiled in this context, in order."""
    regions: list[CompiledRegion] = []
    token = _collector.set(regions)
    try:
        yield regions
    finally:
        _collector.reset(token)


def report_region(region: CompiledRegion) -> None:
    """Add a region to those that are being collected, if anyone collects them."""
    regions = _collector.get()
    if regions is not None:
        regions.append(region)
