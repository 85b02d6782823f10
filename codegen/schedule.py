"""Schedules: the knobs of a kernel, independent of the operator that uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

from runtime_sim.errors import VnpuError

Value = int | str

MAX_PREFETCH = 4
MAX_UNROLL = 16
FIELD_MAX = 65535
_SIZES, _COUNTS = range(1, FIELD_MAX + 1), range(1, 256)
RANGES: Mapping[str, range | tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("tile_h", "tile_w", "tile_oc", "tile_ic", "load_tiles"), _SIZES),
        "first_tile_h": range(FIELD_MAX + 1),
        "load_ic": ("all", "tile"),
        "halo": ("reload", "keep"),
        "order": ("spatial_outer", "channel_outer", "depth_outer"),
        "weights": ("resident", "stream"),
        **dict.fromkeys(("in_buffers", "weight_buffers", "out_buffers", "acc_buffers"), _COUNTS),
        "prefetch": range(MAX_PREFETCH + 1),
        "micro_kernel": ("implicit_gemm", "packed_taps", "pixel_stationary"),
        "unroll": range(1, MAX_UNROLL + 1),
    }
)
"""What a knob may be in any kernel. Fields have 16 bits, semaphores count to 255."""


class ScheduleError(VnpuError):
    """No legal schedule exists, or a given one is not legal."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a kernel is tiled, ordered and buffered.

    tile_h, tile_w: output rows and columns of a tile. first_tile_h: rows of the first tile (0:
    as many as the others). tile_oc: output channels of a step (a channel tile for depthwise and
    vector operators). tile_ic: input channels of a matrix command. load_tiles: row tiles that
    one input load serves. load_ic: an input load brings all channels of its tile, or those of
    one step, as the first channel tile comes to need them (`tile`). halo: input rows that the
    windows of successive loads share are loaded again (`reload`) or stay in a ring of rows
    (`keep`). order: the loops, outermost first (see `conv_steps.LOOPS`). weights: `resident`
    (loaded once) or `stream` (loaded again as the loops ask). *_buffers: rotating buffers.
    prefetch: how many steps ahead loads are issued, where there are buffers for it.
    micro_kernel: `implicit_gemm`, `packed_taps` (kernel taps share the array's rows) or
    `pixel_stationary` (pixels stay in the array, weights stream). unroll: copies of the step
    loop's body.
    """

    tile_h: int = 1
    tile_w: int = 1
    first_tile_h: int = 0
    tile_oc: int = 1
    tile_ic: int = 1
    load_tiles: int = 1
    load_ic: str = "all"
    halo: str = "reload"
    order: str = "spatial_outer"
    weights: str = "resident"
    in_buffers: int = 2
    weight_buffers: int = 2
    out_buffers: int = 2
    acc_buffers: int = 2
    prefetch: int = 1
    micro_kernel: str = "implicit_gemm"
    unroll: int = 1

    @property
    def in_range(self) -> bool:
        """Return whether every knob has a value that some kernel may have."""
        return all(getattr(self, name) in values for name, values in RANGES.items())

    def describe(self) -> str:
        """Return the schedule in one line."""
        text = f"tile {self.tile_h}x{self.tile_w}x{self.tile_oc} (ic {self.tile_ic})"
        text += f", first {self.first_tile_h}" if self.first_tile_h else ""
        text += f", load {self.load_tiles} tiles" if self.load_tiles > 1 else ""
        text += f", load ic {self.load_ic}" if self.load_ic != "all" else ""
        text += f", halo {self.halo}" if self.halo != "reload" else ""
        buffers = self.in_buffers, self.weight_buffers, self.out_buffers, self.acc_buffers
        text += f", {self.order}, weights {self.weights}, buffers {'/'.join(map(str, buffers))}"
        return f"{text}, prefetch {self.prefetch}, {self.micro_kernel}, unroll {self.unroll}"

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
