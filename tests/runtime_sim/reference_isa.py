"""The instructions of the second machine; see `reference`."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from itertools import product

import numpy as np

from runtime_sim.npu import NpuConfig
from tests.runtime_sim import reference as ref
from tests.runtime_sim.reference import Fields, State


def transfer(state: State, f: Fields, config: NpuConfig, to_spm: bool) -> None:
    """Copy a box between DRAM and SPM."""
    dram = state.regions[f["dram"] >> 40]
    moved = []
    for i, j, k, b in product(range(f["n0"]), range(f["n1"]), range(f["n2"]), range(f["run"])):
        steps = (i, j, k)
        offset = (f["dram"] & ((1 << 40) - 1)) + b
        offset += sum(n * f[f"dram_stride{axis}"] for axis, n in enumerate(steps))
        local = f["spm_addr"] + b + sum(n * f[f"spm_stride{axis}"] for axis, n in enumerate(steps))
        moved.append((offset, local, dram[offset], state.spm[local]))
    for offset, local, from_dram, from_spm in moved:
        if to_spm:
            state.spm[local] = from_dram
        else:
            dram[offset] = from_spm


def load(state: State, f: Fields, config: NpuConfig) -> None:
    """LOAD."""
    transfer(state, f, config, True)


def store(state: State, f: Fields, config: NpuConfig) -> None:
    """STORE."""
    transfer(state, f, config, False)


def convolve(
    state: State,
    f: Fields,
    channels: int,
    inputs: Callable[[int], list[int]],
    weight: Callable[[int, int, int, int], int],
) -> None:
    """Sum over the taps and the input channels of each output channel."""
    size = "bB"[f["w_type"]]
    for (y, x), o in product(ref.pixels(f), range(channels)):
        zero = f["w_zp"]
        if f["w_zp_vector"]:
            zero = struct.unpack_from(size, state.spm, f["w_zp_addr"] + o)[0]
        total = 0
        for i, j, row, column in ref.taps(f, y, x):
            for k in inputs(o):
                a = f["pad_value"]
                if ref.present(f, row, column):
                    a = ref.get(state, f, "in", row, column, k, f["a_type"])
                w = struct.unpack_from(size, state.spm, f["w_addr"] + weight(i, j, k, o))[0]
                total += (a - f["in_zp"]) * (w - zero)
        at = f["acc_addr"] + (y * f["out_w"] + x) * f["acc_stride"] + o
        total += state.acc[at] if f["accumulate"] else 0
        state.acc[at] = (total + (1 << 31)) % (1 << 32) - (1 << 31)


def conv(state: State, f: Fields, config: NpuConfig) -> None:
    """CONV."""
    block, depth = config.array_cols, f["kh"] * f["kw"] * f["ic"]

    def weight(i: int, j: int, k: int, o: int) -> int:
        first = o // block * block
        width = min(block, f["oc"] - first)
        return first * depth + ((i * f["kw"] + j) * f["ic"] + k) * width + o - first

    convolve(state, f, f["oc"], lambda o: list(range(f["ic"])), weight)


def dwconv(state: State, f: Fields, config: NpuConfig) -> None:
    """DWCONV."""
    channels = f["c"] * f["mult"]
    convolve(
        state,
        f,
        channels,
        lambda o: [o // f["mult"]],
        lambda i, j, k, o: (i * f["kw"] + j) * channels + o,
    )


def matmul(state: State, f: Fields, config: NpuConfig) -> None:
    """MATMUL."""

    def element(prefix: str, row: int, column: int) -> int:
        at = row * f[f"{prefix}_row_stride"] + column * f[f"{prefix}_col_stride"]
        size = "bB"[f[f"{prefix}_type"]]
        value = struct.unpack_from(size, state.spm, f[f"{prefix}_addr"] + at)[0]
        return int(value) - f[f"{prefix}_zp"]

    for y, x in product(range(f["m"]), range(f["n"])):
        total = sum(element("a", y, i) * element("b", i, x) for i in range(f["k"]))
        at = f["acc_addr"] + y * f["acc_stride"] + x
        total += state.acc[at] if f["accumulate"] else 0
        state.acc[at] = (total + (1 << 31)) % (1 << 32) - (1 << 31)


def requant(state: State, f: Fields, config: NpuConfig) -> None:
    """REQUANT."""
    for (y, x), c in product(ref.pixels(f), range(f["c"])):
        acc = state.acc[f["acc_addr"] + (y * f["w"] + x) * f["acc_stride"] + c]
        record = bytes(state.spm[f["params"] + 12 * c : f["params"] + 12 * c + 12])
        ref.put(state, f, "out", y, x, c, f["out_type"], ref.requantize(f, acc, record))


_OPERATIONS: dict[int, Callable[..., float]] = {
    0: lambda a, b: a + b,
    1: lambda a, b: a - b,
    2: lambda a, b: a * b,
    3: min,
    4: max,
}


def combine(f: Fields, a: int, b: int) -> int:
    """Rescale two integers, combine them, rescale the result."""
    operation = _OPERATIONS[f["op"]]
    zero_point, lo, hi, mode = f["out_zp"], f["lo"], f["hi"], f["rounding"]
    if mode == ref.RNE:
        with np.errstate(all="ignore"):
            left = np.float32(a) * ref.bits_to_float(f["a_mult"])
            right = np.float32(b) * ref.bits_to_float(f["b_mult"])
            real = operation(left, right) / ref.bits_to_float(f["out_mult"])
        return ref.float_to_integer(real, zero_point, lo, hi)
    if f["op"] != 2:
        a, b = (
            ref.saturate(
                ref.scale_integer(
                    ref.saturate(v << f["left_shift"]), f[f"{side}_mult"], f[f"{side}_shift"], mode
                )
            )
            for v, side in ((a, "a"), (b, "b"))
        )
    total = ref.saturate(int(operation(a, b)))
    scaled = ref.scale_integer(total, f["out_mult"], f["out_shift"], mode)
    return max(lo, min(hi, scaled + zero_point))


def eltwise(state: State, f: Fields, config: NpuConfig) -> None:
    """ELTWISE."""
    for (y, x), c in product(ref.pixels(f), range(f["c"])):
        a = ref.get(state, f, "a", y, x, c, f["a_type"]) - f["a_zp"]
        other = 0 if f["b_broadcast"] else c
        b = ref.get(state, f, "b", y, x, other, f["b_type"]) - f["b_zp"]
        ref.put(state, f, "out", y, x, c, f["out_type"], combine(f, a, b))


def maxpool(state: State, f: Fields, config: NpuConfig) -> None:
    """MAXPOOL."""
    for (y, x), c in product(ref.pixels(f), range(f["c"])):
        seen = [
            ref.get(state, f, "in", row, column, c, f["type"])
            for _, _, row, column in ref.taps(f, y, x)
            if ref.present(f, row, column)
        ]
        value = max(f["lo"], min(f["hi"], max(seen, default=f["lo"])))
        ref.put(state, f, "out", y, x, c, f["type"], value)


def avgpool(state: State, f: Fields, config: NpuConfig) -> None:
    """AVGPOOL."""
    window = f["kh"] * f["kw"]
    for (y, x), c in product(ref.pixels(f), range(f["c"])):
        seen = [
            ref.get(state, f, "in", row, column, c, f["in_type"]) - f["in_zp"]
            for _, _, row, column in ref.taps(f, y, x)
            if ref.present(f, row, column)
        ]
        count = window if f["include_pad"] else len(seen)
        at = f["params"] + 12 * (window - count)
        value = max(f["lo"], min(f["hi"], f["out_zp"]))
        if count:
            value = ref.requantize(f, sum(seen), bytes(state.spm[at : at + 12]))
        ref.put(state, f, "out", y, x, c, f["out_type"], value)


def converted(f: Fields, x: float) -> float:
    """Convert one element."""
    zero_point, lo, hi, mode = f["out_zp"], f["lo"], f["hi"], f["rounding"]
    if f["in_type"] == ref.F32 == f["out_type"]:
        return x
    if f["in_type"] != ref.F32:
        centred = int(x) - f["in_zp"]
        if f["out_type"] != ref.F32 and mode != ref.RNE:
            scaled = ref.scale_integer(centred, f["multiplier"], f["shift"], mode)
            return max(lo, min(hi, scaled + zero_point))
        with np.errstate(all="ignore"):
            x = np.float32(centred) * ref.bits_to_float(f["multiplier"])
        if f["out_type"] == ref.F32:
            return x
    with np.errstate(all="ignore"):
        real = np.float32(x) / ref.bits_to_float(f["out_scale"])
    return ref.float_to_integer(real, zero_point, lo, hi, away=mode == ref.AWAY)


def convert(state: State, f: Fields, config: NpuConfig) -> None:
    """CONVERT."""
    values = {
        (y, x, c): ref.get(state, f, "in", y, x, c, f["in_type"])
        for (y, x), c in product(ref.pixels(f), range(f["c"]))
    }
    for (y, x, c), value in values.items():
        ref.put(state, f, "out", y, x, c, f["out_type"], converted(f, value))


def lut(state: State, f: Fields, config: NpuConfig) -> None:
    """LUT."""
    for (y, x), c in product(ref.pixels(f), range(f["c"])):
        index = ref.get(state, f, "in", y, x, c, ref.U8)
        ref.put(state, f, "out", y, x, c, ref.U8, state.spm[f["table_addr"] + index])


def exact_softmax(f: Fields, values: list[int]) -> list[int]:
    """Take exponentials of reals, each divided by their sum."""
    scale, out_scale = (float(ref.bits_to_float(f[name])) for name in ("in_scale", "out_mult"))
    exponentials = [math.exp(scale * (value - max(values))) for value in values]
    total = math.fsum(exponentials)
    return [
        ref.float_to_integer(e / total / out_scale, f["out_zp"], f["lo"], f["hi"])
        for e in exponentials
    ]


def shiftmax(f: Fields, values: list[int]) -> list[int]:
    """Follow Algorithm 1 of I-ViT, with TVM's limit of 20 halvings."""
    unit, parts = f["in_scale"], []
    for value in values:
        below = value - max(values)
        power = below + (below >> 1) - (below >> 4)
        halvings = min(ref.truncating_divide(power, -unit), 20)
        parts.append((halvings, ((power + halvings * unit) >> 1) + unit))
    most = max(halvings for halvings, _ in parts)
    exponentials = [mantissa << (most - halvings) for halvings, mantissa in parts]
    factor = ref.truncating_divide(1 << 30, sum(exponentials))
    scaled = [
        ref.scale_integer((factor * e) >> 23, f["out_mult"], f["out_shift"], f["rounding"])
        for e in exponentials
    ]
    return [max(f["lo"], min(f["hi"], value + f["out_zp"])) for value in scaled]


def softmax(state: State, f: Fields, config: NpuConfig) -> None:
    """SOFTMAX."""
    algorithm = shiftmax if f["algorithm"] else exact_softmax
    for y, x in ref.pixels(f):
        values = [ref.get(state, f, "in", y, x, c, f["in_type"]) for c in range(f["c"])]
        for c, value in enumerate(algorithm(f, values)):
            ref.put(state, f, "out", y, x, c, f["out_type"], value)


def fill(state: State, f: Fields, config: NpuConfig) -> None:
    """FILL."""
    for (y, x), c in product(ref.pixels(f), range(f["c"])):
        ref.put(state, f, "out", y, x, c, ref.U8, f["value"])


EXECUTE: dict[str, Callable[[State, Fields, NpuConfig], None]] = {
    "LOAD": load,
    "STORE": store,
    "CONV": conv,
    "DWCONV": dwconv,
    "MATMUL": matmul,
    "REQUANT": requant,
    "ELTWISE": eltwise,
    "MAXPOOL": maxpool,
    "AVGPOOL": avgpool,
    "CONVERT": convert,
    "LUT": lut,
    "SOFTMAX": softmax,
    "FILL": fill,
}
