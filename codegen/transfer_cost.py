"""What transfers cost in a schedule's estimate: whole bursts, and latency that nothing hides."""

from __future__ import annotations

import math

from codegen.borders import Border
from runtime_sim.npu import Memory


def transfer_cycles(size: float, memory: Memory) -> float:
    """Return the cycles of one contiguous transfer; short ones cannot hide the next's latency."""
    bursts = math.ceil(size / memory.burst) * memory.burst
    return max(bursts / memory.bytes_per_cycle, memory.latency if size else 0)


def box_cycles(border: Border, extent: tuple[float, float, float], memory: Memory) -> float:
    """Return the cycles of a tile's transfer where others follow that it delays."""
    return max(data_cycles(border, extent, memory), memory.latency)


def data_cycles(border: Border, extent: tuple[float, float, float], memory: Memory) -> float:
    """Return how long a tile keeps the memory busy: runs that do not touch cost whole bursts each.

    `extent`: rows, columns and channels, as means over the tiles.
    """
    height, width, channels = extent
    if border.planar:
        runs, run, stride = channels * height, width * border.item, border.row_pitch
    elif channels < border.channels or border.step[1] > 1:
        runs, run = height * width, channels * border.item
        stride = border.pixel_pitch
    else:
        runs, run = height, width * channels * border.item
        stride = border.row_pitch
    if run >= stride:
        runs, run = 1, run * runs
    grain = math.gcd(memory.burst, int(stride), max(1, int(run)))
    touched = runs * (run + memory.burst - grain)
    return touched / memory.bytes_per_cycle
