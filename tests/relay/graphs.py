"""Small QNN graphs that tests are about."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

RANDOM = np.random.default_rng(17)


def image(*shape: int, dtype: str = "int8", name: str = "x") -> relay.Var:
    """Return a parameter."""
    return relay.var(name, shape=shape, dtype=dtype)


def values(*shape: int, dtype: str = "int8", seed: int = 0) -> np.ndarray:
    """Return random values of a type."""
    random = np.random.default_rng(seed)
    if dtype == "float32":
        return random.normal(0, 2, shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max + 1, shape).astype(dtype)


def conv2d(
    x: relay.Expr, channels: int, *, inputs: int = 3, out_scale: float = 0.3, zero_point: int = -7,
    w_scale: float = 0.01, x_scale: float = 0.05, x_zero_point: int = 3, rounding: str = "None",
    seed: int = 1,
) -> relay.Expr:  # fmt: skip
    """Return conv2d 3x3, bias and requantize, per tensor."""
    weight = values(channels, inputs, 3, 3, seed=seed)
    sums = relay.qnn.op.conv2d(
        x, relay.const(weight), relay.const(x_zero_point), relay.const(0),
        relay.const(x_scale), relay.const(w_scale), kernel_size=(3, 3), channels=channels,
        padding=(1, 1, 1, 1),
    )  # fmt: skip
    bias = np.arange(channels, dtype="int32") * 100
    sums = relay.nn.bias_add(sums, relay.const(bias))
    return requantize(
        sums, float(np.float32(x_scale) * np.float32(w_scale)), 0, out_scale, zero_point,
        axis=1, rounding=rounding,
    )  # fmt: skip


def requantize(
    x: relay.Expr, scale: float, zero_point: int, out_scale: float, out_zero_point: int,
    dtype: str = "int8", **attrs: object,
) -> relay.Expr:  # fmt: skip
    """Return a requantisation per tensor."""
    return relay.qnn.op.requantize(
        x, relay.const(scale), relay.const(zero_point), relay.const(out_scale),
        relay.const(out_zero_point), out_dtype=dtype, **attrs,
    )  # fmt: skip


def module(body: relay.Expr) -> tvm.IRModule:
    """Return a typed module whose parameters are the free variables."""
    function = relay.Function(relay.analysis.free_vars(body), body)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))
