"""Why a matched operator stays on the CPU."""

from __future__ import annotations

from runtime_sim.errors import VnpuError


class Unsupported(VnpuError):
    """A matched operator that the NPU cannot take; the message is the reason users read."""
