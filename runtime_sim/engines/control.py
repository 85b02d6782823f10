"""Semantics of the controller's own commands: they move no data."""

from __future__ import annotations

from runtime_sim.npu import NpuConfig
from runtime_sim.views import Fields


def fence(f: Fields, config: NpuConfig) -> None:
    """Order every command before it with every command after it."""


def counter(f: Fields, config: NpuConfig) -> None:
    """Mark a cycle of the timeline."""


def end(f: Fields, config: NpuConfig) -> None:
    """End the program."""
