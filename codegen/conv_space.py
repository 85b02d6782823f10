"""The knobs of a convolution kernel, and which of them have an effect at a point."""

from __future__ import annotations

from dataclasses import replace

from codegen.conv_plan import ConvLayout, ConvShape
from codegen.conv_schedule import channel_tiles, depth_tiles, divisor_like, halvings
from codegen.schedule import Schedule
from codegen.space import Knob
from runtime_sim.npu import NpuConfig


def knobs(shape: ConvShape, npu: NpuConfig) -> tuple[Knob, ...]:
    """Return the knobs of a convolution kernel."""
    shape = shape.thinned()
    kernels = ("packed_taps",) if shape.packs_taps(npu.array_rows) else ()
    return (
        Knob("tile_h", tuple(sorted(divisor_like(shape.rows.out), reverse=True))),
        Knob("tile_w", tuple(halvings(shape.cols.out))),
        Knob("tile_oc", tuple(channel_tiles(shape, npu))),
        Knob("tile_ic", (shape.group_in, *depth_tiles(shape, npu))),
        Knob("order", ("spatial_outer", "channel_outer")),
        Knob("weights", ("resident", "stream")),
        Knob("in_buffers", (1, 2, 3)),
        Knob("weight_buffers", (1, 2, 3)),
        Knob("out_buffers", (1, 2, 3)),
        Knob("acc_buffers", (1, 2, 3)),
        Knob("micro_kernel", ("implicit_gemm", *kernels)),
        Knob("unroll", (1, 2, 4)),
    )


def canonical(shape: ConvShape, s: Schedule) -> Schedule:
    """Return the schedule of the same stream whose knobs without effect have fixed values."""
    shape = shape.thinned()
    at = ConvLayout(shape, s)
    spatial = -(-shape.rows.out // s.tile_h) * at.col_tiles
    steps = spatial * at.channel_tiles
    order, weights = s.order, s.weights
    if at.channel_tiles == 1:
        weights = "resident" if order == "channel_outer" else weights
        order = "spatial_outer"
    if shape.depthwise and spatial == 1:
        order = "spatial_outer"
    loads = steps if shape.depthwise or order == "channel_outer" else spatial
    pieces = at.channel_tiles if order == "channel_outer" else steps * at.depth_tiles
    return replace(
        s,
        order=order,
        weights=weights,
        in_buffers=min(s.in_buffers, loads),
        weight_buffers=min(s.weight_buffers, pieces) if weights == "stream" else 1,
        out_buffers=min(s.out_buffers, steps),
        acc_buffers=min(s.acc_buffers, steps),
        unroll=s.unroll if s.unroll <= steps else 1,
    )
