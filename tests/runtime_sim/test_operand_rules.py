"""Each operand rule: a command that it refuses and a legal neighbour that it lets through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from runtime_sim import npu
from runtime_sim.isa.codec import encode
from runtime_sim.isa.rules import RULES
from runtime_sim.machine import Machine
from runtime_sim.npu import Capabilities, NpuConfig
from runtime_sim.numerics import float32_bits
from runtime_sim.views import IllegalCommand

CONFIG = npu.load("vnpu-64")
ONES = ("in_h", "in_w", "out_h", "out_w", "kh", "kw", "sh", "sw", "dh", "dw")
CONV = dict.fromkeys((*ONES, "ic", "oc"), 1)
DWCONV = dict.fromkeys((*ONES, "c", "mult"), 1)
MATMUL = {"m": 1, "k": 1, "n": 1}
POOL = dict.fromkeys((*ONES[:-2], "c"), 1) | {"lo": 0, "hi": 9}
PLAIN = {"h": 1, "w": 1, "c": 1, "hi": 9}
EXACT = PLAIN | {
    "rounding": 4, "in_scale": float32_bits(0.1), "out_mult": float32_bits(1 / 256),
}  # fmt: skip
SHIFTMAX = PLAIN | {"algorithm": 1, "in_scale": 50, "out_mult": 1 << 30}
NO_FEATURES = replace(
    CONFIG,
    capabilities=Capabilities(
        activation_types=("int8",),
        weight_types=("int8",),
        asymmetric_activations=False,
        per_channel_zero_points=False,
        depthwise_unit=False,
        float_requantizer=False,
        lut_unit=False,
    ),
)
SYMMETRIC = replace(CONFIG, capabilities=Capabilities(asymmetric_weights=False))

Case = tuple[NpuConfig, str, dict[str, int], dict[str, int], str]
CASES: dict[str, list[Case]] = {
    "control_has_no_semaphores": [
        (CONFIG, "FENCE", {"wait": 2}, {"issue": 9}, "wait, post: seen 0x2, 0x0; limit 0"),
    ],
    "ring_holds_rows": [
        (
            CONFIG,
            "CONV",
            CONV | {"in_h": 3, "in_ring_rows": 2},
            CONV | {"in_h": 3, "in_ring_rows": 3},
            "in_ring_rows: seen 2; limit at least the operand's 3 rows",
        ),
        (
            CONFIG,
            "REQUANT",
            PLAIN | {"h": 2, "out_ring_rows": 2, "out_ring_start": 2},
            PLAIN | {"h": 2, "out_ring_rows": 2, "out_ring_start": 1},
            "out_ring_start: seen 2; limit below 2",
        ),
        (
            CONFIG,
            "ELTWISE",
            PLAIN | {"b_ring_start": 1},
            PLAIN | {"b_ring_start": 0},
            "b_ring_start: seen 1; limit below 1",
        ),
    ],
    "clamp_fits_result": [
        (
            CONFIG,
            "REQUANT",
            PLAIN | {"lo": -128, "hi": 128},
            PLAIN | {"lo": -128, "hi": 127},
            "lo, hi: seen -128..128; limit within -128..127, lo <= hi",
        ),
        (
            CONFIG,
            "MAXPOOL",
            POOL | {"type": 1, "lo": 6, "hi": 5},
            POOL | {"type": 1, "lo": 5, "hi": 5},
            "lo, hi: seen 6..5; limit within 0..255, lo <= hi",
        ),
    ],
    "pad_value_fits_type": [
        (
            CONFIG,
            "CONV",
            CONV | {"a_type": 1, "pad_value": -1},
            CONV | {"a_type": 0, "pad_value": -1},
            "pad_value: seen -1; limit 0..255",
        ),
    ],
    "packed_taps_fit": [
        (
            CONFIG,
            "CONV",
            CONV | {"packed": 1, "ic": 5, "in_pixel_stride": 5},
            CONV | {"packed": 1, "ic": 4, "in_pixel_stride": 5},
            "ic: seen 5; limit 4 where packed = 1",
        ),
    ],
    "shifts_in_range": [
        (
            CONFIG,
            "ELTWISE",
            PLAIN | {"out_shift": -32},
            PLAIN | {"out_shift": -31},
            "out_shift: seen -32; limit -31..30",
        ),
        (
            CONFIG,
            "CONVERT",
            PLAIN | {"shift": 31},
            PLAIN | {"shift": 31, "rounding": 4},
            "shift: seen 31; limit -31..30",
        ),
    ],
    "rounding_is_defined": [
        (
            CONFIG,
            "ELTWISE",
            PLAIN | {"rounding": 3},
            PLAIN | {"rounding": 5},
            "rounding: seen HALF_AWAY_F64; limit another mode",
        ),
        (
            CONFIG,
            "CONVERT",
            PLAIN | {"in_type": 4, "rounding": 0},
            PLAIN | {"in_type": 4, "rounding": 3},
            "rounding: seen SINGLE_UP; limit FLOAT_RNE or HALF_AWAY_F64 for float32 input",
        ),
        (
            CONFIG,
            "CONVERT",
            PLAIN | {"rounding": 3},
            PLAIN | {"rounding": 2},
            "rounding: seen HALF_AWAY_F64; limit another mode for integer input",
        ),
    ],
    "left_shift_is_used": [
        (
            CONFIG,
            "ELTWISE",
            PLAIN | {"op": 2, "left_shift": 20},
            PLAIN | {"op": 0, "left_shift": 20},
            "left_shift: seen 20; limit 0",
        ),
    ],
    "softmax_is_defined": [
        (
            CONFIG,
            "SOFTMAX",
            EXACT | {"rounding": 3},
            EXACT,
            "rounding: seen HALF_AWAY_F64; limit FLOAT_RNE in EXACT",
        ),
        (
            CONFIG,
            "SOFTMAX",
            EXACT | {"in_scale": float32_bits(-0.5)},
            EXACT | {"in_scale": float32_bits(2.0)},
            "in_scale: seen -0.5; limit a finite scale above 0 in EXACT",
        ),
        (
            CONFIG,
            "SOFTMAX",
            EXACT | {"out_mult": float32_bits(np.inf)},
            EXACT | {"out_mult": float32_bits(3e38)},
            "out_mult: seen inf; limit a finite scale above 0 in EXACT",
        ),
        (
            CONFIG,
            "SOFTMAX",
            SHIFTMAX | {"rounding": 4},
            SHIFTMAX | {"rounding": 5},
            "rounding: seen FLOAT_RNE; limit a fixed-point mode in SHIFTMAX",
        ),
        (
            CONFIG,
            "SOFTMAX",
            SHIFTMAX | {"in_scale": 0},
            SHIFTMAX | {"in_scale": 1},
            "in_scale: seen 0; limit one whose sums over 1 channels fit int32",
        ),
        (
            CONFIG,
            "SOFTMAX",
            SHIFTMAX | {"c": 114, "in_scale": 18, "in_pixel_stride": 114},
            SHIFTMAX | {"c": 113, "in_scale": 18, "in_pixel_stride": 114},
            "in_scale: seen 18; limit one whose sums over 114 channels fit int32",
        ),
    ],
    "types_supported": [
        (
            NO_FEATURES,
            "CONV",
            CONV | {"w_type": 1},
            CONV | {"w_type": 0},
            "w_type: seen uint8; limit int8",
        ),
        (
            NO_FEATURES,
            "MATMUL",
            MATMUL | {"b_type": 1},
            MATMUL,
            "b_type: seen uint8; limit int8",
        ),
    ],
    "asymmetry_supported": [
        (
            NO_FEATURES,
            "CONV",
            CONV | {"in_zp": 1},
            CONV | {"w_zp": 1},
            "in_zp: seen 1; limit 0: this NPU has symmetric activations only",
        ),
        (
            NO_FEATURES,
            "MATMUL",
            MATMUL | {"b_zp": 1},
            MATMUL,
            "b_zp: seen 1; limit 0: this NPU has symmetric activations only",
        ),
        (
            SYMMETRIC,
            "CONV",
            CONV | {"w_zp": 1},
            CONV | {"in_zp": 1},
            "w_zp: seen 1; limit 0: this NPU has symmetric weights only",
        ),
        (
            NO_FEATURES,
            "CONV",
            CONV | {"w_zp_vector": 1},
            CONV | {"w_zp": 3},
            "w_zp_vector: seen 1; limit 0: this NPU has one weight zero point per tensor",
        ),
    ],
    "unit_present": [
        (
            NO_FEATURES,
            "REQUANT",
            PLAIN | {"rounding": 4},
            PLAIN | {"rounding": 3},
            "rounding: seen FLOAT_RNE; limit a fixed-point mode: this NPU has no float requantiser",
        ),
        (
            NO_FEATURES,
            "CONVERT",
            PLAIN | {"rounding": 4},
            PLAIN | {"rounding": 4, "in_type": 4},
            "rounding: seen FLOAT_RNE; limit a fixed-point mode: this NPU has no float requantiser",
        ),
    ],
}


@pytest.mark.parametrize(
    ("rule", "config", "mnemonic", "bad", "good", "detail"),
    [
        pytest.param(rule, *case, id=f"{rule}-{i}")
        for rule, cases in CASES.items()
        for i, case in enumerate(cases)
    ],
)
def test_rule(
    rule: str,
    config: NpuConfig,
    mnemonic: str,
    bad: dict[str, int],
    good: dict[str, int],
    detail: str,
) -> None:
    machine = Machine(config)
    with pytest.raises(IllegalCommand) as error:
        machine.plan(encode(mnemonic, **bad))
    name, rest = detail.split(":", 1)
    assert str(error.value) == f"command 0 ({mnemonic}): {name} breaks rule {rule}:{rest}"
    machine.plan(encode(mnemonic, **good))


def test_depthwise_needs_its_unit() -> None:
    with pytest.raises(IllegalCommand) as error:
        Machine(NO_FEATURES).plan(encode("DWCONV", **DWCONV))
    assert str(error.value) == (
        "command 0 (DWCONV): opcode breaks rule unit_present: "
        "seen DWCONV; limit CONV: this NPU has no depthwise unit"
    )
    Machine(CONFIG).plan(encode("DWCONV", **DWCONV))


def test_look_up_needs_its_unit() -> None:
    with pytest.raises(IllegalCommand) as error:
        Machine(NO_FEATURES).plan(encode("LUT", h=1, w=1, c=1))
    assert str(error.value) == (
        "command 0 (LUT): opcode breaks rule unit_present: "
        "seen LUT; limit another instruction: this NPU has no look-up unit"
    )
    Machine(CONFIG).plan(encode("LUT", h=1, w=1, c=1))


def test_every_operand_rule_is_tested() -> None:
    assert list(CASES) == [rule.__name__ for rule in RULES]
