"""Semantics of the vector queue VX: requantise, combine, pool, convert and fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim import numerics
from runtime_sim.engines.windows import window, window_input
from runtime_sim.isa.fields import LUT_ENTRIES, DType, EltwiseOp, Rounding, SoftmaxAlgorithm
from runtime_sim.npu import NpuConfig
from runtime_sim.step import Step
from runtime_sim.views import DTYPES, Fields, accumulator, tensor, vector

Array = NDArray[Any]

_COMBINE: dict[int, Callable[[Array, Array], Array]] = {
    EltwiseOp.ADD: np.add,
    EltwiseOp.SUB: np.subtract,
    EltwiseOp.MUL: np.multiply,
    EltwiseOp.MIN: np.minimum,
    EltwiseOp.MAX: np.maximum,
}


def requant(f: Fields, config: NpuConfig) -> Step:
    """out <- clamp(round((acc + bias[c]) * scale[c]) + out_zp, lo, hi)."""
    shape = (f["h"], f["w"], f["c"])
    records = vector(f["params"], f["c"] * numerics.RECORD_BYTES)
    return Step(
        (accumulator(f, *shape), records),
        tensor(f, "out", *shape, f["out_type"]),
        lambda acc, raw: _requantize(f, acc, numerics.unpack_records(raw, f["rounding"])),
    )


def eltwise(f: Fields, config: NpuConfig) -> Step:
    """out <- clamp(rescale(rescale(a) op rescale(b)) + out_zp, lo, hi)."""
    shape = (f["h"], f["w"], f["c"])
    a_table, b_table = _operand_table(f, "a"), _operand_table(f, "b")

    def compute(a: Array, b: Array) -> Array:
        return _finish(f, _COMBINE[f["op"]](_look_up(a_table, a), _look_up(b_table, b)))

    b_channels = 1 if f["b_broadcast"] else f["c"]
    b = tensor(f, "b", f["h"], f["w"], b_channels, f["b_type"])
    out = tensor(f, "out", *shape, f["out_type"])
    return Step((tensor(f, "a", *shape, f["a_type"]), b), out, compute)


def maxpool(f: Fields, config: NpuConfig) -> Step:
    """out <- clamp(maximum over the window's present elements, lo, hi); lo if there are none."""
    geometry, dtype = window(f), DTYPES[f["type"]]
    lowest = int(np.iinfo(dtype).min)

    def compute(x: Array) -> Array:
        padded = geometry.padded(x, 0, lowest, dtype)
        return np.clip(geometry.reduce(padded, np.maximum), f["lo"], f["hi"])

    out = tensor(f, "out", *geometry.out, f["c"], f["type"])
    return Step((window_input(f, geometry, f["c"], f["type"]),), out, compute)


def avgpool(f: Fields, config: NpuConfig) -> Step:
    """out <- sum over the window of (x - in_zp), requantised by the record of its count."""
    geometry = window(f)
    counts = np.full(geometry.out, f["kh"] * f["kw"]) if f["include_pad"] else geometry.counts()
    index = f["kh"] * f["kw"] - counts[counts > 0]
    first, last = (int(index.min()), int(index.max())) if index.size else (0, -1)
    address = f["params"] + first * numerics.RECORD_BYTES
    params = vector(address, (last + 1 - first) * numerics.RECORD_BYTES)
    pick = np.where(counts > 0, f["kh"] * f["kw"] - counts - first, 0)

    def compute(x: Array, raw: Array) -> Array:
        sums = geometry.reduce(geometry.padded(x, f["in_zp"], f["in_zp"], np.int32), np.add)
        return _average(f, sums, raw, pick, counts)

    out = tensor(f, "out", *geometry.out, f["c"], f["out_type"])
    return Step((window_input(f, geometry, f["c"], f["in_type"]), params), out, compute)


def convert(f: Fields, config: NpuConfig) -> Step:
    """out <- in, quantised, dequantised or rescaled as the two types ask."""
    shape = (f["h"], f["w"], f["c"])
    return Step(
        (tensor(f, "in", *shape, f["in_type"]),),
        tensor(f, "out", *shape, f["out_type"]),
        _converter(f),
    )


def lut(f: Fields, config: NpuConfig) -> Step:
    """out <- table[in], indexed by the raw byte."""
    shape = (f["h"], f["w"], f["c"])
    return Step(
        (tensor(f, "in", *shape, DType.U8), vector(f["table_addr"], LUT_ENTRIES)),
        tensor(f, "out", *shape, DType.U8),
        lambda x, table: np.take(table, x),
    )


def softmax(f: Fields, config: NpuConfig) -> Step:
    """out <- exp(scale * (in - max)) over its sum along the channels, requantised."""
    shape = (f["h"], f["w"], f["c"])
    exact = f["algorithm"] == SoftmaxAlgorithm.EXACT
    return Step(
        (tensor(f, "in", *shape, f["in_type"]),),
        tensor(f, "out", *shape, f["out_type"]),
        lambda x: _exact_softmax(f, x) if exact else _shiftmax(f, x),
    )


def _exact_softmax(f: Fields, x: Array) -> Array:
    scale = float(numerics.float32_from_bits(f["in_scale"]))
    shares = numerics.exact_softmax(x, scale) / float(numerics.float32_from_bits(f["out_mult"]))
    return numerics.clamp(np.rint(shares), f["out_zp"], f["lo"], f["hi"])


def _shiftmax(f: Fields, x: Array) -> Array:
    shares = numerics.shiftmax(x, f["in_scale"])
    scaled = numerics.requantize(shares, f["out_mult"], f["out_shift"], f["rounding"])
    return numerics.clamp(scaled, f["out_zp"], f["lo"], f["hi"])


def fill(f: Fields, config: NpuConfig) -> Step:
    """out <- value, in every byte of the box."""
    shape = (f["h"], f["w"], f["c"])
    value = np.full((1, 1, 1), f["value"], np.uint8)
    return Step((), tensor(f, "out", *shape, DType.U8), lambda: np.broadcast_to(value, shape))


def _average(f: Fields, sums: Array, raw: Array, pick: Array, counts: Array) -> Array:
    """Requantise window sums (h, w, c) by the record that `pick` (h, w) names."""
    if not raw.size:
        return np.full(sums.shape, np.clip(f["out_zp"], f["lo"], f["hi"]))
    records = numerics.unpack_records(raw, f["rounding"]).take(pick[:, :, None])
    empty = (counts == 0)[:, :, None]
    average = _requantize(f, sums, records)
    return np.where(empty, np.clip(f["out_zp"], f["lo"], f["hi"]), average)


def _requantize(f: Fields, acc: Array, records: numerics.Records) -> Array:
    return numerics.requantize_records(acc, records, f["rounding"], f["out_zp"], f["lo"], f["hi"])


def _operand_table(f: Fields, side: str) -> Array:
    """Return the rescaled value of each of the 256 bit patterns of an ELTWISE operand."""
    x = _all_bytes(f[f"{side}_type"]).astype(np.int64) - f[f"{side}_zp"]
    if f["rounding"] == Rounding.FLOAT_RNE:
        return x.astype(np.float32) * numerics.float32_from_bits(f[f"{side}_mult"])
    if f["op"] == EltwiseOp.MUL:
        return x
    shifted = numerics.saturate_int32(x << f["left_shift"])
    rescaled = numerics.requantize(shifted, f[f"{side}_mult"], f[f"{side}_shift"], f["rounding"])
    return numerics.saturate_int32(rescaled)


def _finish(f: Fields, value: Array) -> Array:
    """Rescale the combined value of ELTWISE to the output's quantisation."""
    zero_point, lo, hi = f["out_zp"], f["lo"], f["hi"]
    if f["rounding"] == Rounding.FLOAT_RNE:
        with np.errstate(all="ignore"):
            real = value / numerics.float32_from_bits(f["out_mult"])
        return numerics.clamp_float(real, zero_point, lo, hi)
    total = numerics.saturate_int32(value)
    scaled = numerics.requantize(total, f["out_mult"], f["out_shift"], f["rounding"])
    return numerics.clamp(scaled, zero_point, lo, hi)


def _converter(f: Fields) -> Callable[[Array], Array]:
    """Return the function of CONVERT; 8-bit inputs go through a table of all 256 values."""
    if f["in_type"] == DType.F32:
        return _move if f["out_type"] == DType.F32 else lambda x: _quantize(f, x)
    values = _all_bytes(f["in_type"]).astype(np.int64)
    table = _rescale(f, values).astype(DTYPES[f["out_type"]])
    if f["in_type"] == f["out_type"] and np.array_equal(table, values):
        return _move
    return lambda x: _look_up(table, x)


def _move(x: Array) -> Array:
    return x


def _quantize(f: Fields, x: Array) -> Array:
    """Return float32 x / out_scale as integers: ties to even in FLOAT_RNE, else away from zero."""
    with np.errstate(all="ignore"):
        real = x / numerics.float32_from_bits(f["out_scale"])
    ties_even = f["rounding"] == Rounding.FLOAT_RNE
    return numerics.clamp_float(real, f["out_zp"], f["lo"], f["hi"], ties_even)


def _rescale(f: Fields, x: NDArray[np.int64]) -> Array:
    """Return integers x as CONVERT gives them: dequantised, or requantised to the output."""
    centred = x - f["in_zp"]
    to_float = f["out_type"] == DType.F32
    if to_float or f["rounding"] == Rounding.FLOAT_RNE:
        with np.errstate(all="ignore"):
            real = centred.astype(np.float32) * numerics.float32_from_bits(f["multiplier"])
        return real if to_float else _quantize(f, real)
    scaled = numerics.requantize(centred, f["multiplier"], f["shift"], f["rounding"])
    return numerics.clamp(scaled, f["out_zp"], f["lo"], f["hi"])


def _all_bytes(dtype: int) -> Array:
    """Return the value of each 8-bit pattern 0..255 in an integer type."""
    return np.arange(256, dtype=np.uint8).view(DTYPES[dtype])


def _look_up(table: Array, x: Array) -> Array:
    return np.take(table, x.view(np.uint8))
