"""Semantics of the matrix queue MX: convolution tiles into the accumulator.

Products go through float BLAS. That is exact: a float32 sum is while K * max|x| * max|w| < 2^24,
a float64 sum while it is below 2^53.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from runtime_sim.engines.windows import Window, window, window_input
from runtime_sim.npu import NpuConfig
from runtime_sim.step import Step
from runtime_sim.views import DTYPES, Fields, IllegalCommand, accumulator, vector

Product = Callable[[NDArray[Any], NDArray[Any], Any], NDArray[Any]]


def conv(f: Fields, config: NpuConfig) -> Step:
    """ACC[y,x,o] (+)= sum over taps and channels of (a - in_zp) * (w - w_zp[o])."""
    geometry, oc = window(f), f["oc"]
    depth = f["kh"] * f["kw"] * f["ic"]
    exact = _exact_type(f, depth)

    def product(x: NDArray[Any], w: NDArray[Any], zero: Any) -> NDArray[Any]:
        weights = unblock(w, depth, oc, config.array_cols, exact) - zero
        return geometry.im2col(_padded(f, geometry, x, exact)) @ weights

    return _matrix_step(f, geometry, f["ic"], oc, depth * oc, product)


def dwconv(f: Fields, config: NpuConfig) -> Step:
    """ACC[y,x,o] (+)= sum over taps of (a[o / mult] - in_zp) * (w[tap,o] - w_zp[o])."""
    geometry, channels = window(f), f["c"] * f["mult"]
    taps = [(y, x) for y in range(f["kh"]) for x in range(f["kw"])]

    def product(x: NDArray[Any], w: NDArray[Any], zero: Any) -> NDArray[Any]:
        weights = w.reshape(len(taps), channels).astype(np.int32) - np.asarray(zero, np.int32)
        padded = _padded(f, geometry, x, np.int32)
        if f["mult"] > 1:
            padded = np.repeat(padded, f["mult"], axis=2)
        total = geometry.tap(padded, 0, 0) * weights[0]
        for (row, column), weight in zip(taps[1:], weights[1:], strict=True):
            total += geometry.tap(padded, row, column) * weight
        return total

    return _matrix_step(f, geometry, f["c"], channels, len(taps) * channels, product)


def _matrix_step(
    f: Fields, geometry: Window, channels: int, oc: int, weights: int, product: Product
) -> Step:
    """Assemble the step around `product`: weight zero points, accumulation, int32 wrap-around."""
    w_type, shape = DTYPES[f["w_type"]], (f["out_h"], f["out_w"], oc)
    acc = accumulator(f, *shape)
    reads = [window_input(f, geometry, channels, f["a_type"]), vector(f["w_addr"], weights, w_type)]
    if f["w_zp_vector"]:
        reads.append(vector(f["w_zp_addr"], oc, w_type))
    if f["accumulate"]:
        reads.append(acc)

    def compute(x: NDArray[Any], w: NDArray[Any], *rest: NDArray[Any]) -> NDArray[Any]:
        zero = rest[0].astype(np.float32) if f["w_zp_vector"] else np.float32(f["w_zp"])
        result = _to_int32(product(x, w, zero)).reshape(shape)
        return result + rest[-1] if f["accumulate"] else result

    return Step(tuple(reads), acc, compute)


def _padded(f: Fields, geometry: Window, x: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    return geometry.padded(x, f["in_zp"], f["pad_value"], dtype)


def unblock(
    packed: NDArray[Any], depth: int, oc: int, block: int, dtype: DTypeLike
) -> NDArray[Any]:
    """Return weights packed as blocks of [depth][block] output channels, as (depth, oc)."""
    if oc <= block:
        return packed.reshape(depth, oc).astype(dtype)
    whole = oc // block
    out = np.empty((depth, oc), dtype)
    full = packed[: whole * depth * block].reshape(whole, depth, block)
    out[:, : whole * block].reshape(depth, whole, block)[...] = full.transpose(1, 0, 2)
    if oc % block:
        out[:, whole * block :] = packed[whole * depth * block :].reshape(depth, oc % block)
    return out


def _to_int32(total: NDArray[Any]) -> NDArray[np.int32]:
    """Return exact sums as int32, modulo 2^32 (the verifier proves that nothing wraps)."""
    if total.dtype == np.float64:
        total = total.astype(np.int64)
    return total.astype(np.int32, copy=False)


def _exact_type(f: Fields, depth: int) -> DTypeLike:
    low, high = product_bounds(f)
    bound = depth * max(-low, high)
    if bound < 1 << 24:
        return np.float32
    if bound < 1 << 53:
        return np.float64
    rule = "accumulator_never_overflows"
    raise IllegalCommand(
        "convolution sum is too long", rule=rule, seen=f"|sum| up to {bound}", limit="2^53"
    )


def product_bounds(f: Fields) -> tuple[int, int]:
    """Return (low, high) of one product (a - in_zp) * (w - w_zp) over all operand values."""
    a, w = np.iinfo(DTYPES[f["a_type"]]), np.iinfo(DTYPES[f["w_type"]])
    a_low, a_high = int(a.min) - f["in_zp"], int(a.max) - f["in_zp"]
    if f["w_zp_vector"]:
        w_low, w_high = int(w.min) - int(w.max), int(w.max) - int(w.min)
    else:
        w_low, w_high = int(w.min) - f["w_zp"], int(w.max) - f["w_zp"]
    corners = [x * y for x in (a_low, a_high) for y in (w_low, w_high)]
    return min(corners), max(corners)


def reduction_depth(f: Fields) -> int:
    """Return how many products one output element of CONV or DWCONV sums."""
    return f["kh"] * f["kw"] * f.get("ic", 1)
