"""What the quantiser aims for: a frozen value, by default read from the NPU's capabilities."""

from __future__ import annotations

from dataclasses import dataclass

from runtime_sim.npu import NpuConfig


@dataclass(frozen=True, slots=True)
class Recipe:
    """int8 quantisation: how weights and activations get their scales.

    `per_channel`: one weight scale per output channel. `symmetric_activations`: zero point 0.
    """

    per_channel: bool = True
    symmetric_activations: bool = False

    @staticmethod
    def for_npu(npu: NpuConfig) -> Recipe:
        """Return the default recipe for an NPU's capabilities."""
        capabilities = npu.capabilities
        return Recipe(
            per_channel=capabilities.per_channel_scales,
            symmetric_activations=not capabilities.asymmetric_activations,
        )
