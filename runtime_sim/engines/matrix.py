"""Semantics of the matrix queue MX: convolutions and products of activations into the accumulator.

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
from runtime_sim.views import DTYPES, Fields, IllegalCommand, accumulator, matrix, vector

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


def matmul(f: Fields, config: NpuConfig) -> Step:
    """ACC[m,n] (+)= sum over k of (a[m,k] - a_zp) * (b[k,n] - b_zp)."""
    exact, acc = _exact_type(f, f["k"]), accumulator(f, f["m"], 1, f["n"])
    reads = [matrix(f, "a", f["m"], f["k"]), matrix(f, "b", f["k"], f["n"])]

    def compute(a: NDArray[Any], b: NDArray[Any], *so_far: NDArray[Any]) -> NDArray[Any]:
        total = np.subtract(a, f["a_zp"], dtype=exact) @ np.subtract(b, f["b_zp"], dtype=exact)
        result = _to_int32(total)[:, None]
        return result + so_far[0] if f["accumulate"] else result

    return Step((*reads, acc) if f["accumulate"] else tuple(reads), acc, compute)


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
        "the sum of products is too long", rule=rule, seen=f"|sum| up to {bound}", limit="2^53"
    )


def product_bounds(f: Fields) -> tuple[int, int]:
    """Return (low, high) of one centred product over all operand values."""
    if "b_type" in f:
        sides = (_reach(f["a_type"], f["a_zp"]), _reach(f["b_type"], f["b_zp"]))
    elif f["w_zp_vector"]:
        w = np.iinfo(DTYPES[f["w_type"]])
        width = int(w.max) - int(w.min)
        sides = (_reach(f["a_type"], f["in_zp"]), (-width, width))
    else:
        sides = (_reach(f["a_type"], f["in_zp"]), _reach(f["w_type"], f["w_zp"]))
    corners = [x * y for x in sides[0] for y in sides[1]]
    return min(corners), max(corners)


def _reach(dtype: int, zero_point: int) -> tuple[int, int]:
    """Return the least and the greatest centred value of a type."""
    info = np.iinfo(DTYPES[dtype])
    return int(info.min) - zero_point, int(info.max) - zero_point


def reduction_depth(f: Fields) -> int:
    """Return how many products one output element of a matrix command sums."""
    return f["k"] if "k" in f else f["kh"] * f["kw"] * f.get("ic", 1)
