"""Operand rules: what a command's fields must satisfy together, beyond each field's own range.

Each rule is a predicate over one decoded command. Its docstring is the documentation row; it
returns None, or what is wrong as (fields, value seen, limit).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from runtime_sim import numerics
from runtime_sim.isa.fields import (
    DType,
    EltwiseOp,
    Instruction,
    Queue,
    Rounding,
    SoftmaxAlgorithm,
)
from runtime_sim.npu import NpuConfig

Fault = tuple[str, object, object]
Rule = Callable[[Mapping[str, int], Instruction, NpuConfig], "Fault | None"]

_RANGES = {DType.S8: (-128, 127), DType.U8: (0, 255)}
_TYPE_NAMES = {DType.S8: "int8", DType.U8: "uint8"}
_FLOAT_MODES = (Rounding.HALF_AWAY_F64, Rounding.FLOAT_RNE)
_ROWS = {"in": "in_h", "out": "out_h", "a": "h", "b": "h"}
SHIFT_FIELDS = ("shift", "a_shift", "b_shift", "out_shift")


def control_has_no_semaphores(
    f: Mapping[str, int], row: Instruction, config: NpuConfig
) -> Fault | None:
    """Commands of the controller neither wait for semaphores nor post them."""
    if row.queue == Queue.CTRL and (f["wait"] or f["post"]):
        return "wait, post", f"0x{f['wait']:x}, 0x{f['post']:x}", 0
    return None


def ring_holds_rows(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """A ring has at least as many rows as the operand and its start row lies inside it; an operand
    without a ring has start row 0."""
    for prefix in _ROWS:
        ring, start = f.get(f"{prefix}_ring_rows"), f.get(f"{prefix}_ring_start", 0)
        if ring is None:
            continue
        rows = f.get(_ROWS[prefix], f.get("h", 0))
        if ring and rows > ring:
            return f"{prefix}_ring_rows", ring, f"at least the operand's {rows} rows"
        if start >= max(ring, 1):
            return f"{prefix}_ring_start", start, f"below {max(ring, 1)}"
    return None


def clamp_fits_result(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """lo <= hi, and both lie in the range of the result type (float32 results are not clamped)."""
    result = f.get("out_type", f.get("type", -1))
    if "lo" not in f or result not in _RANGES:
        return None
    low, high = _RANGES[DType(result)]
    if low <= f["lo"] <= f["hi"] <= high:
        return None
    return "lo, hi", f"{f['lo']}..{f['hi']}", f"within {low}..{high}, lo <= hi"


def pad_value_fits_type(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """pad_value is a value of the activation type."""
    if "pad_value" not in f:
        return None
    low, high = _RANGES[DType(f["a_type"])]
    if low <= f["pad_value"] <= high:
        return None
    return "pad_value", f["pad_value"], f"{low}..{high}"


def packed_taps_fit(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """Packed taps need ic <= array rows / 2."""
    limit = config.array_rows // 2
    if not f.get("packed") or f["ic"] <= limit:
        return None
    return "ic", f["ic"], f"{limit} where packed = 1"


def shifts_in_range(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """In the fixed-point modes every shift lies in -31..30."""
    if f.get("rounding") in _FLOAT_MODES:
        return None
    for name in SHIFT_FIELDS:
        if not -31 <= f.get(name, 0) <= 30:
            return name, f[name], "-31..30"
    return None


def rounding_is_defined(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """ELTWISE and integer CONVERT have no HALF_AWAY_F64; float32 to integer CONVERT rounds with
    FLOAT_RNE or HALF_AWAY_F64 only."""
    mode = f.get("rounding", 0)
    if row.mnemonic == "ELTWISE" and mode == Rounding.HALF_AWAY_F64:
        return "rounding", "HALF_AWAY_F64", "another mode"
    if row.mnemonic != "CONVERT" or f["out_type"] == DType.F32:
        return None
    if f["in_type"] == DType.F32 and mode not in _FLOAT_MODES:
        return "rounding", Rounding(mode).name, "FLOAT_RNE or HALF_AWAY_F64 for float32 input"
    if f["in_type"] != DType.F32 and mode == Rounding.HALF_AWAY_F64:
        return "rounding", "HALF_AWAY_F64", "another mode for integer input"
    return None


def left_shift_is_used(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """left_shift is 0 where nothing reads it: for MUL and in FLOAT_RNE."""
    unused = f.get("op") == EltwiseOp.MUL or f.get("rounding") == Rounding.FLOAT_RNE
    if unused and f.get("left_shift", 0):
        return "left_shift", f["left_shift"], 0
    return None


def softmax_is_defined(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """SOFTMAX: EXACT rounds with FLOAT_RNE and has finite scales above 0; SHIFTMAX rounds in a
    fixed-point mode, and the sums of its exponentials are above 0 and fit int32."""
    if row.mnemonic != "SOFTMAX":
        return None
    if f["algorithm"] == SoftmaxAlgorithm.EXACT:
        if f["rounding"] != Rounding.FLOAT_RNE:
            return "rounding", Rounding(f["rounding"]).name, "FLOAT_RNE in EXACT"
        for name in ("in_scale", "out_mult"):
            scale = float(numerics.float32_from_bits(f[name]))
            if not 0 < scale < math.inf:
                return name, scale, "a finite scale above 0 in EXACT"
        return None
    if f["rounding"] in _FLOAT_MODES:
        return "rounding", Rounding(f["rounding"]).name, "a fixed-point mode in SHIFTMAX"
    if not numerics.shiftmax_fits(f["in_scale"], f["c"]):
        return "in_scale", f["in_scale"], f"one whose sums over {f['c']} channels fit int32"
    return None


def types_supported(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """The array takes only activation and weight types that the configuration lists."""
    if row.queue != Queue.MX:
        return None
    allowed = config.capabilities
    activations, weights = allowed.activation_types, allowed.weight_types
    for name, types in (("a_type", activations), ("b_type", activations), ("w_type", weights)):
        if name in f and _TYPE_NAMES[DType(f[name])] not in types:
            return name, _TYPE_NAMES[DType(f[name])], " or ".join(types)
    return None


def asymmetry_supported(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """Where the configuration says so, the array's zero points are 0, or one per tensor."""
    if row.queue != Queue.MX:
        return None
    allowed = config.capabilities
    for name in ("in_zp", "a_zp", "b_zp"):
        if f.get(name) and not allowed.asymmetric_activations:
            return name, f[name], "0: this NPU has symmetric activations only"
    if "w_zp" not in f:
        return None
    if (f["w_zp"] or f["w_zp_vector"]) and not allowed.asymmetric_weights:
        return "w_zp", f["w_zp"], "0: this NPU has symmetric weights only"
    if f["w_zp_vector"] and not allowed.per_channel_zero_points:
        return "w_zp_vector", 1, "0: this NPU has one weight zero point per tensor"
    return None


def unit_present(f: Mapping[str, int], row: Instruction, config: NpuConfig) -> Fault | None:
    """DWCONV needs the depthwise unit, LUT the look-up unit; FLOAT_RNE on integers needs the float
    requantiser."""
    if row.mnemonic == "LUT" and not config.capabilities.lut_unit:
        return "opcode", "LUT", "another instruction: this NPU has no look-up unit"
    if row.mnemonic == "DWCONV" and not config.capabilities.depthwise_unit:
        return "opcode", "DWCONV", "CONV: this NPU has no depthwise unit"
    converts_float = DType.F32 in (f.get("in_type"), f.get("out_type"))
    if f.get("rounding") != Rounding.FLOAT_RNE or converts_float:
        return None
    if not config.capabilities.float_requantizer:
        return "rounding", "FLOAT_RNE", "a fixed-point mode: this NPU has no float requantiser"
    return None


RULES: tuple[Rule, ...] = (
    control_has_no_semaphores,
    ring_holds_rows,
    clamp_fits_result,
    pad_value_fits_type,
    packed_taps_fit,
    shifts_in_range,
    rounding_is_defined,
    left_shift_is_used,
    softmax_is_defined,
    types_supported,
    asymmetry_supported,
    unit_present,
)
