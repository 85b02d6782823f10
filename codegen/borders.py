"""Border forms: how a kernel reads an input or writes an output that is not int8 NHWC.

A region's inputs and outputs may be float32, or lie in planes (NCHW). The kernel then stages the
tile and a CONVERT quantises, dequantises and transposes it on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from codegen.arithmetic import INTEGER_LIMITS
from codegen.expr import Expr, ExprLike, as_expr
from codegen.graph import DTYPE_BYTES, Tensor
from codegen.kernel import Instr, instr
from codegen.tiles import Span
from runtime_sim.isa.fields import DType, Rounding
from runtime_sim.numerics import IDENTITY_MULTIPLIER, IDENTITY_SHIFT

DTYPE_CODE = {
    "int8": DType.S8, "uint8": DType.U8, "int32": DType.S32, "float32": DType.F32,
}  # fmt: skip

S = TypeVar("S", int, Expr)
CONVERT_SCALARS = ("in_zp", "multiplier", "shift", "out_scale", "out_zp", "lo", "hi")
"""The fields of CONVERT that a kernel takes as parameters."""


@dataclass(frozen=True, slots=True)
class Border:
    """A tensor in DRAM as a kernel sees it: its type, its layout and its full extents.

    `step`: only every step-th row and column is seen; boxes count in those.
    """

    dtype: str
    layout: str
    height: int
    width: int
    channels: int
    step: tuple[int, int] = (1, 1)

    @property
    def item(self) -> int:
        """Return the bytes of an element."""
        return DTYPE_BYTES[self.dtype]

    @property
    def planar(self) -> bool:
        """Return whether channels are planes in memory (a lone pixel or channel is not)."""
        return self.layout == "NCHW" and self.channels > 1 and self.height * self.width > 1

    @property
    def row_pitch(self) -> int:
        """Return the bytes from a row that is seen to the next."""
        channels = 1 if self.planar else self.channels
        return self.width * channels * self.item * self.step[0]

    @property
    def pixel_pitch(self) -> int:
        """Return the bytes from a pixel that is seen to the next in its row."""
        return (1 if self.planar else self.channels) * self.item * self.step[1]

    def needs_convert(self, dtype: str) -> bool:
        """Return whether a kernel that computes on NHWC `dtype` must convert this tensor."""
        return self.planar or self.dtype != dtype


def border_of(tensor: Tensor) -> Border:
    """Return the border form of a tensor."""
    return Border(tensor.dtype, tensor.layout, *tensor.hwc)


@dataclass(frozen=True, slots=True)
class Box:
    """A tile of a tensor: spans of rows, columns and channels."""

    rows: Span
    cols: Span
    chans: Span


def dma(
    mnemonic: str,
    border: Border,
    box: Box,
    dram: ExprLike,
    spm: ExprLike,
    tile: tuple[int, int, int],
    *,
    wait: ExprLike = 0,
    post: ExprLike = 0,
) -> Instr:
    """Return the LOAD or STORE of a tile.

    `tile` is the (rows, columns, channels) extent of the scratchpad buffer; the buffer has the
    tensor's own layout: [rows][columns][channels], or [channels][rows][columns] where planar.
    """
    if border.planar:
        return _dma_planes(mnemonic, border, box, dram, spm, tile, wait, post)
    item, (_, tile_w, tile_c) = border.item, tile
    pixel, row = border.pixel_pitch, border.row_pitch
    offset = box.rows.start * row + box.cols.start * pixel + box.chans.start * item
    fields: dict[str, ExprLike] = {"dram": as_expr(dram) + offset, "spm_addr": spm, "n0": 1}
    if border.step[1] == 1 and box.chans.size.constant == border.channels == tile_c:
        fields |= {"n1": 1, "n2": box.rows.size, "run": box.cols.size * pixel}
        fields |= {"dram_stride2": row, "spm_stride2": tile_w * tile_c * item}
    else:
        fields |= {"n1": box.rows.size, "n2": box.cols.size, "run": box.chans.size * item}
        fields |= {"dram_stride1": row, "dram_stride2": pixel}
        fields |= {"spm_stride1": tile_w * tile_c * item, "spm_stride2": tile_c * item}
    return instr(mnemonic, wait=wait, post=post, **fields)


def _dma_planes(
    mnemonic: str,
    border: Border,
    box: Box,
    dram: ExprLike,
    spm: ExprLike,
    tile: tuple[int, int, int],
    wait: ExprLike,
    post: ExprLike,
) -> Instr:
    item, (tile_h, tile_w, _) = border.item, tile
    row, plane = border.row_pitch, border.height * border.width * item
    offset = box.chans.start * plane + box.rows.start * row + box.cols.start * item
    return instr(
        mnemonic, wait=wait, post=post, dram=as_expr(dram) + offset, spm_addr=spm,
        n0=1, n1=box.chans.size, n2=box.rows.size, run=box.cols.size * item,
        dram_stride1=plane, dram_stride2=row,
        spm_stride1=tile_h * tile_w * item, spm_stride2=tile_w * item,
    )  # fmt: skip


def tile_strides(border: Border, tile: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the (row, pixel, channel) byte strides of a tile buffer in the tensor's layout."""
    item, (tile_h, tile_w, tile_c) = border.item, tile
    if border.planar:
        return tile_w * item, item, tile_h * tile_w * item
    return tile_w * tile_c * item, tile_c * item, item


def convert(
    box: Box,
    source: tuple[Border, ExprLike, tuple[int, int, int]],
    target: tuple[Border, ExprLike, tuple[int, int, int]],
    scalars: Mapping[str, ExprLike],
    rounding: int,
    *,
    wait: ExprLike = 0,
    post: ExprLike = 0,
    out_ring: tuple[ExprLike, ExprLike] = (0, 0),
) -> Instr:
    """Return the CONVERT of a tile between two buffers, each (border, SPM address, extent).

    `scalars` has in_zp, multiplier, shift, out_scale, out_zp, lo and hi.
    """
    fields: dict[str, ExprLike] = {}
    for prefix, (border, address, tile) in (("in", source), ("out", target)):
        row, pixel, channel = tile_strides(border, tile)
        fields |= {
            f"{prefix}_addr": address,
            f"{prefix}_row_stride": row,
            f"{prefix}_pixel_stride": pixel,
            f"{prefix}_channel_stride": channel,
            f"{prefix}_type": DTYPE_CODE[border.dtype],
        }
    fields |= {"out_ring_rows": out_ring[0], "out_ring_start": out_ring[1]}
    return instr(
        "CONVERT", wait=wait, post=post, h=box.rows.size, w=box.cols.size, c=box.chans.size,
        rounding=rounding, **fields, **scalars,
    )  # fmt: skip


def identity_scalars(dtype: str) -> dict[str, int]:
    """Return the CONVERT scalars that move elements unchanged."""
    low, high = INTEGER_LIMITS.get(dtype, (0, 0))
    values = (0, IDENTITY_MULTIPLIER, IDENTITY_SHIFT, 0, 0, low, high)
    return dict(zip(CONVERT_SCALARS, values, strict=True))


def quantize_scalars(dtype: str, scale: S, zero_point: S) -> dict[str, S | int]:
    """Return the CONVERT scalars that quantise float32; `scale` is the bits of a float32."""
    values = (0, 0, 0, scale, zero_point, *INTEGER_LIMITS[dtype])
    return dict(zip(CONVERT_SCALARS, values, strict=True))


def dequantize_scalars(scale: S, zero_point: S) -> dict[str, S | int]:
    """Return the CONVERT scalars that make float32; `scale` is the bits of a float32."""
    return dict(zip(CONVERT_SCALARS, (zero_point, scale, 0, 0, 0, 0, 0), strict=True))


def border_rounding(dtype: str) -> int:
    """Return the rounding mode of a border conversion: floats round half to even, as ONNX does."""
    return int(Rounding.FLOAT_RNE if dtype == "float32" else Rounding.SINGLE_UP)
