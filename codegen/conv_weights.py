"""The weights and other constants of a convolution kernel: loads, and where steps read them."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.conv_plan import RECORD_BYTES, WEIGHT_LOOPS
from codegen.conv_steps import (
    PARAMS_FULL,
    WEIGHTS_LOADED,
    ZERO_POINTS_FULL,
    ConvSteps,
    Step,
    unless,
)
from codegen.expr import Expr, ExprLike, as_expr, less, param
from codegen.kernel import Guard, Instr, Node, instr
from codegen.loop_nest import Feed, Indices
from codegen.tiles import Handshake


class Constants:
    """Weight tiles are resident, each loaded before its first use, or stream through buffers."""

    def __init__(self, steps: ConvSteps) -> None:
        """Derive which steps share a weight tile."""
        self.steps, self.shape, self.s, self.at = steps, steps.shape, steps.s, steps.at
        self.resident = self.s.weights == "resident"
        buffers = None if self.resident else self.s.weight_buffers
        self.feed = Feed.of(steps.nest, WEIGHT_LOOPS, self.s.prefetch, buffers)
        self.shake = Handshake(2, 3, self.s.weight_buffers, self.feed.total)
        self.pieces = self.at.channel_tiles * self.at.depth_tiles

    # --- loads ----------------------------------------------------------------------------------

    def load(self, t: Expr) -> tuple[Node, ...]:
        """Return the load of step `t`'s weights, where the step is the first to read them.

        Resident ones are loaded as the first steps come to them, so that they hold up neither the
        inputs nor the stores.
        """
        use = self.feed.number(t)
        wanted = self.feed.first(t)
        if self.resident:
            wanted = unless(WEIGHTS_LOADED, wanted * less(use, self.pieces))
        return (Guard(wanted, (self._load(use),)),)

    def _load(self, use: Expr) -> Instr:
        offset, size = self._piece(self.feed.indices(use))
        return instr(
            "LOAD", dram=param("weights") + offset, spm_addr=self._address(use, offset),
            n0=1, n1=1, n2=1, run=size,
            wait=0 if self.resident else self.shake.acquire(use),
            post=self.shake.filled,
        )  # fmt: skip

    def _piece(self, index: Indices) -> tuple[Expr, Expr]:
        """Return (offset, bytes) of a weight tile within the packed weights."""
        chans, shape = self.steps.channels(index["channel"]), self.shape
        if shape.depthwise:
            return chans.start * shape.taps, chans.size * shape.taps
        inner = self.steps.inner(index["depth"])
        offset = chans.start * shape.depth + inner.start * shape.taps * chans.size
        return offset, chans.size * inner.size * shape.taps

    def _address(self, use: Expr, offset: Expr) -> Expr:
        place = offset
        if not self.resident:
            place = self.shake.slot(use) * self.at.weight_tile
        return param("spm") + self.at.weights + place

    def load_once(self) -> Iterator[tuple[Node, int]]:
        """Yield the loads of zero points and parameters, unless the caller has them, and the step
        that is the first to need each: the first one, and the first one to complete its sums.
        """
        size = self.shape.target.channels
        if self.shape.vector_zero_points:
            block = _block("zero_points", self.at.zero_points, size, ZERO_POINTS_FULL)
            yield Guard(unless(WEIGHTS_LOADED, 1), (block,)), 0
        block = _block("params", self.at.params, size * RECORD_BYTES, PARAMS_FULL)
        yield Guard(unless(WEIGHTS_LOADED, 1), (block,)), self.at.first_completed

    # --- what a step reads ----------------------------------------------------------------------

    def operand(self, step: Step) -> dict[str, ExprLike]:
        """Return the fields of the step's weights."""
        offset, _ = self._piece(step.index)
        fields: dict[str, ExprLike] = {
            "w_addr": self._address(self.feed.number(step.t), offset), "w_zp": param("w_zp"),
        }  # fmt: skip
        if self.shape.vector_zero_points:
            fields["w_zp_vector"] = 1
            fields["w_zp_addr"] = param("spm") + self.at.zero_points + step.out.chans.start
        return fields

    def wait(self, step: Step) -> Expr:
        """Return what the step waits for: its weights and zero points, where they are new."""
        t, filled = step.t, self.shake.filled
        if not self.resident:
            wait = self.feed.first(t) * filled
        else:
            fresh = self.feed.first(t) * less(self.feed.number(t), self.pieces)
            wait = unless(WEIGHTS_LOADED, fresh * filled)
        if self.shape.vector_zero_points:
            wait = wait + unless(WEIGHTS_LOADED, less(t, 1) * (1 << ZERO_POINTS_FULL))
        return wait

    def post(self, step: Step) -> Expr:
        """Return what the step posts: its tile's buffer, where it is the last to read it."""
        if self.resident:
            return as_expr(0)
        return self.feed.last(step.t) * self.shake.release(self.feed.number(step.t))


def _block(name: str, offset: int, size: int, semaphore: int) -> Instr:
    return instr(
        "LOAD", dram=param(name), spm_addr=param("spm") + offset, n0=1, n1=1, n2=1, run=size,
        post=1 << semaphore,
    )  # fmt: skip
