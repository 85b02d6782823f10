"""Short hand-written commands for tests of the timeline and the verifier."""

from __future__ import annotations

import numpy as np

from runtime_sim.isa.codec import Words, encode


def stream(*commands: Words) -> Words:
    """Join commands and add END."""
    return np.concatenate([*commands, encode("END")])


def mask(*semaphores: int) -> int:
    """Return a wait or post mask."""
    return sum(1 << semaphore for semaphore in semaphores)


def address(region: int, offset: int = 0) -> int:
    """Return a DRAM address."""
    return region << 40 | offset


def load(size: int = 64, *, region: int = 2, offset: int = 0, spm: int = 0, **more: int) -> Words:
    """LOAD `size` contiguous bytes."""
    f = {"n0": 1, "n1": 1, "n2": 1, "run": size, "dram": address(region, offset), "spm_addr": spm}
    return encode("LOAD", **{**f, **more})


def store(size: int = 64, *, region: int = 1, offset: int = 0, spm: int = 0, **more: int) -> Words:
    """STORE `size` contiguous bytes."""
    f = {"n0": 1, "n1": 1, "n2": 1, "run": size, "dram": address(region, offset), "spm_addr": spm}
    return encode("STORE", **{**f, **more})


def tensor(prefix: str, at: int, pixel: int = 8) -> dict[str, int]:
    """Return the fields of a one-row operand."""
    return {
        f"{prefix}_addr": at,
        f"{prefix}_row_stride": pixel,
        f"{prefix}_pixel_stride": pixel,
    }


def conv(*, x: int = 0, w: int = 32, acc: int = 0, ic: int = 8, oc: int = 4, **more: int) -> Words:
    """CONV 1 x 1 of one pixel: `ic` activations at `x`, ic * oc weights at `w`."""
    ones = ("in_h", "in_w", "out_h", "out_w", "kh", "kw", "sh", "sw", "dh", "dw")
    f = dict.fromkeys(ones, 1) | tensor("in", x, ic)
    f |= {"w_addr": w, "acc_addr": acc, "acc_stride": oc, "ic": ic, "oc": oc}
    return encode("CONV", **{**f, **more})


def matmul(*, a: int = 0, b: int = 32, acc: int = 0, k: int = 8, **more: int) -> Words:
    """MATMUL of one row of `k` elements at `a` and one column at `b`."""
    f = {"m": 1, "k": k, "n": 1, "a_addr": a, "a_col_stride": 1, "b_addr": b, "b_row_stride": 1}
    return encode("MATMUL", **{**f, "acc_addr": acc, **more})


def requant(*, acc: int = 0, out: int = 0, params: int = 0, c: int = 4, **more: int) -> Words:
    """REQUANT one pixel of `c` channels."""
    f = {"acc_addr": acc, "acc_stride": c, "h": 1, "w": 1, "c": c, "params": params, "hi": 9}
    return encode("REQUANT", **{**f, **tensor("out", out, c), **more})


def add(*, a: int = 0, b: int = 0, out: int = 0, c: int = 4, **more: int) -> Words:
    """ELTWISE ADD one pixel of `c` channels."""
    f = {"h": 1, "w": 1, "c": c, "a_mult": 1 << 30, "b_mult": 1 << 30, "out_mult": 1 << 30}
    f |= {"a_shift": 1, "b_shift": 1, "out_shift": 1, "lo": -128, "hi": 127}
    f |= tensor("a", a, c) | tensor("b", b, c) | tensor("out", out, c)
    return encode("ELTWISE", **{**f, **more})


def maxpool(*, x: int = 0, out: int = 0, w: int = 4, kw: int = 1, **more: int) -> Words:
    """MAXPOOL a row of `w` one-channel pixels with a 1 x `kw` window."""
    ones = ("in_h", "out_h", "kh", "sh", "sw", "c")
    f = dict.fromkeys(ones, 1) | {"in_w": w, "out_w": w - kw + 1, "kw": kw}
    f |= tensor("in", x, 1) | tensor("out", out, 1) | {"lo": -128, "hi": 127}
    return encode("MAXPOOL", **{**f, **more})
