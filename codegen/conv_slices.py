"""Sliced input of a convolution kernel: a tile comes in slices of input channels.

A slice is what a step reads, loaded when the first channel tile comes to it; it stays for the
others. The array starts once it has the first slice instead of the whole tile. The slices of a tile
share its buffer: the first load waits until it is free.
"""

from __future__ import annotations

from codegen.borders import Box, dma
from codegen.conv_inputs import InputTiles
from codegen.conv_steps import INPUT_RESIDENT, Step, unless
from codegen.expr import Expr, less, param
from codegen.kernel import Guard, Node


class SlicedInput(InputTiles):
    """Input tiles hold all channels, and are loaded a depth tile at a time."""

    def load(self, t: Expr) -> tuple[Node, ...]:
        """Return the load of the slice that step `t` reads, where it is the first to read it."""
        step, use = self.steps.step(t), self.feed.number(t)
        box, _, _ = self._window(self._read(step))
        first = less(step.index["depth"], 1)
        command = dma(
            "LOAD", self.shape.source, Box(box.rows, box.cols, step.inner), param("in0"),
            self._buffer(use) + step.inner.start, self.at.in_tile,
            wait=first * self.shake.acquire(use), post=self.shake.filled,
        )  # fmt: skip
        return (Guard(unless(INPUT_RESIDENT, self._is_new(step)), (command,)),)

    def wait(self, step: Step) -> Expr:
        """Return what the step waits for: its slice, where it is the first to read it."""
        return unless(INPUT_RESIDENT, self._is_new(step) * self.shake.filled)

    def _is_new(self, step: Step) -> Expr:
        return less(step.index["channel"], 1)
