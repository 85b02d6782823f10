"""Scalar arguments of the conversions that kernels make at a region's borders."""

from __future__ import annotations

import numpy as np

from codegen.borders import border_of, identity_scalars
from codegen.graph import Tensor, quant_of
from runtime_sim.numerics import float32_bits


def border_input_scalars(tensor: Tensor, dtype: str) -> dict[str, int]:
    """Return the `in_convert_*` scalars that turn a border input into integer NHWC `dtype`."""
    if not border_of(tensor).needs_convert(dtype):
        return {}
    values = identity_scalars(dtype)
    if tensor.dtype == "float32":
        quant = quant_of(tensor)
        values |= {"out_scale": float32_bits(quant.scale), "out_zp": quant.zero_point}
        values |= {"multiplier": 0, "shift": 0}
    return {f"in_convert_{name}": value for name, value in values.items()}


def border_output_scalars(tensor: Tensor, dtype: str) -> dict[str, int]:
    """Return the `out_convert_*` scalars that turn integer NHWC `dtype` into a border output."""
    if not border_of(tensor).needs_convert(dtype):
        return {}
    values = identity_scalars(dtype)
    if tensor.dtype == "float32":
        quant = quant_of(tensor)
        values |= {"multiplier": float32_bits(quant.scale), "shift": 0, "lo": 0, "hi": 0}
        values |= {"in_zp": quant.zero_point}
    return {f"out_convert_{name}": value for name, value in values.items()}


def real_scale(tensor: Tensor) -> float:
    """Return a tensor's float32 scale as a float."""
    return float(np.float32(quant_of(tensor).scale))
