"""Interval analysis of the accumulator: no sum leaves the range of int32."""

from __future__ import annotations

import numpy as np

from runtime_sim.engines.matrix import product_bounds, reduction_depth
from runtime_sim.isa.fields import Queue
from runtime_sim.numerics import INT32_MAX, INT32_MIN
from runtime_sim.plan import Planned
from runtime_sim.verify.errors import fault
from runtime_sim.verify.shadow import box
from runtime_sim.views import INT32


class AccumulatorBounds:
    """The least and greatest value each ACC element can hold, over all operand values."""

    def __init__(self, elements: int) -> None:
        self._low = np.zeros(elements, np.int64)
        self._high = np.zeros(elements, np.int64)

    def enter(self, command: Planned) -> None:
        """Add a convolution's bounds to the elements it writes and check them."""
        if command.row.queue != Queue.MX or command.step is None:
            return
        f = command.fields
        low, high = (reduction_depth(f) * bound for bound in product_bounds(f))
        where = box(command.step.write.views[0], INT32.itemsize)
        if where is None:
            return
        lows, highs = where.of(self._low), where.of(self._high)
        if f["accumulate"]:
            lows += low
            highs += high
        else:
            lows[...], highs[...] = low, high
        least, most = int(lows.min()), int(highs.max())
        if least < INT32_MIN or most > INT32_MAX:
            raise fault(
                "accumulator_never_overflows",
                command,
                "may overflow the accumulator",
                f"{least}..{most}",
                f"{INT32_MIN}..{INT32_MAX}",
            )
