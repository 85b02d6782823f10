"""What the controller of vNPU v1 pays: cycles, and bytes of instruction memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerCost:
    """Cycles per command, register write and loop iteration; code bytes per command and write.

    `variable_field` comes on top of `field` where the value depends on a rolled loop variable.
    """

    command: int = 4
    field: int = 2
    variable_field: int = 2
    iteration: int = 6
    command_bytes: int = 8
    field_bytes: int = 4


CONTROLLER_COST = ControllerCost()
