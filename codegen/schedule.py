"""Schedules: the knobs of a kernel, independent of the operator that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from runtime_sim.errors import VnpuError

Value = int | str


class ScheduleError(VnpuError):
    """No legal schedule exists, or a given one is not legal."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a kernel is tiled, ordered and buffered.

    tile_h, tile_w: output rows and columns of a tile. tile_oc: output channels of a step (a
    channel tile for depthwise and vector operators). tile_ic: input channels of a matrix command.
    order: `spatial_outer` (all channel tiles of a spatial tile, then the next) or
    `channel_outer` (all spatial tiles of a channel tile). weights: `resident` (loaded once) or
    `stream` (a buffer per step). *_buffers: rotating buffers. micro_kernel: `implicit_gemm`,
    or `packed_taps` (kernel taps share the array's rows). unroll: copies of the step loop's body.
    """

    tile_h: int = 1
    tile_w: int = 1
    tile_oc: int = 1
    tile_ic: int = 1
    order: str = "spatial_outer"
    weights: str = "resident"
    in_buffers: int = 2
    weight_buffers: int = 2
    out_buffers: int = 2
    acc_buffers: int = 2
    micro_kernel: str = "implicit_gemm"
    unroll: int = 1

    def describe(self) -> str:
        """Return the schedule in one line."""
        text = f"tile {self.tile_h}x{self.tile_w}x{self.tile_oc} (ic {self.tile_ic}), {self.order}"
        return f"{text}, weights {self.weights}, {self.micro_kernel}, unroll {self.unroll}"

    def to_dict(self) -> dict[str, Value]:
        """Return every knob by name, as JSON takes it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, knobs: Mapping[str, object]) -> Schedule:
        """Return the schedule of `to_dict`; absent knobs take their defaults.

        Raises ScheduleError for unknown knobs and for values of another type.
        """
        types = {name: type(value) for name, value in cls().to_dict().items()}
        values: dict[str, Value] = {}
        for name, value in knobs.items():
            if name not in types:
                raise ScheduleError(
                    "unknown knob in a schedule", seen=name, limit=f"one of {', '.join(types)}"
                )
            if not isinstance(value, (int, str)) or type(value) is not types[name]:
                raise ScheduleError(
                    f"knob {name} has a value of the wrong type",
                    seen=repr(value)[:60],
                    limit=types[name].__name__,
                )
            values[name] = value
        return cls(**values)  # type: ignore[arg-type]
