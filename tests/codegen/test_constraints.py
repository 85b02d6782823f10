"""Why an operator is refused, word for word: every constraint of every operator has a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codegen.graph import QuantParams, Tensor
from codegen.ops import operators
from codegen.ops.base import Constraint, Operator, best_schedule, rule_text
from codegen.ops.convert import Convert
from codegen.ops.draw import CaseSource
from codegen.profiles import scaling
from codegen.schedule import Schedule, ScheduleError
from runtime_sim.isa.fields import Rounding, SoftmaxAlgorithm
from runtime_sim.npu import NpuConfig, load
from tests.codegen.drawn import WITHOUT_KERNEL

NPU = load("vnpu-256")
TINY = NpuConfig("tiny", array_rows=512, array_cols=4, lanes=4, spm_kib=1, acc_kib=1)
Broken = tuple[Operator, NpuConfig]
Break = Callable[[Any], Broken]


def _without(**capabilities: object) -> NpuConfig:
    return replace(NPU, capabilities=replace(NPU.capabilities, **capabilities))  # type: ignore[arg-type]


def _sound(kind: str) -> Operator:
    """Return a small operator of a kind that breaks nothing."""
    for seed in range(1000):
        source = CaseSource(np.random.default_rng(seed), border_in=False, border_out=False)
        operator = operators()[kind].draw(source)
        image = max(operator.inputs[0].hwc[:2]) > 2 and operator.inputs[0].hwc[2] > 1
        if image and operator.inputs[0].hwc[2] != 4 and not operator.rejections(NPU):
            return operator
    raise AssertionError(f"no sound {kind}")


def _tensors(op: Operator, **changes: object) -> Operator:
    """Return the operator with its first input and its output changed."""
    first, *others = op.inputs
    outputs = (replace(op.outputs[0], **changes),)  # type: ignore[arg-type]
    return replace(op, inputs=(replace(first, **changes), *others), outputs=outputs)  # type: ignore[arg-type]


def _rounds(op: Any, mode: Rounding) -> Any:
    if hasattr(op, "rounding"):
        return replace(op, rounding=mode)
    count = len(op.requant.scaling.multiplier)
    return replace(op, requant=replace(op.requant, scaling=scaling(mode, np.full(count, 0.1))))


def _wide(op: Any) -> Broken:
    """Return a window operator whose sums may leave int32."""
    multiplied = op.kind == "depthwise"
    shape = (op.outputs[0].hwc[2], 200, 200, 1) if multiplied else (len(op.bias), 3, 3, 4000)
    weight = np.zeros(shape, np.int8)
    deep = Tensor("deep", (1, 9, 9, shape[0] if multiplied else 4000), "int8", QuantParams(1, 0))
    zero_points = np.arange(len(op.bias)) % 2
    fields = {"weight": weight, "weight_zero_point": zero_points, "groups": 1}
    return replace(op, inputs=(deep,), in_zero_point=-128, **fields), NPU


def _strided(op: Any) -> Broken:
    return replace(op, strides=(256, 1)), NPU


def _with_scales(op: Any) -> Broken:
    scales = scaling(Rounding.SINGLE_UP, np.arange(1, len(op.bias) + 1) / 100)
    return replace(op, requant=replace(op.requant, scaling=scales)), _without(
        per_channel_scales=False
    )


def _zero_points(op: Any) -> Broken:
    return replace(op, weight_zero_point=np.array([3])), _without(asymmetric_weights=False)


def _border(op: Any) -> Broken:
    source = replace(op.inputs[0], dtype="float32", quant=QuantParams(0.5, 7))
    return replace(op, inputs=(source,), in_zero_point=3), NPU


def _tall(op: Any) -> Broken:
    shape = (1, 70000, *op.outputs[0].shape[2:])
    return replace(op, outputs=(replace(op.outputs[0], shape=shape),)), NPU


def _shrunk(op: Any) -> Broken:
    shape = (*op.outputs[0].shape[:-1], op.outputs[0].shape[-1] + 1)
    return replace(op, outputs=(replace(op.outputs[0], shape=shape),)), NPU


def _misplaced(op: Any) -> Broken:
    return replace(op, before=(*op.before[:2], 99)), NPU


def _typed(op: Any) -> Broken:
    if hasattr(op, "a_type"):
        return replace(op, a_type="int8"), _without(activation_types=("uint8",))
    return _tensors(op, dtype="int32"), NPU


def _unlike(op: Any) -> Broken:
    return replace(op, inputs=(op.inputs[0], replace(op.inputs[1], shape=(1, 9, 9, 99)))), NPU


def _rescaling(op: Convert) -> Broken:
    return replace(op, mode="rescale", rounding=Rounding.HALF_AWAY_F64), NPU


def _shifted(op: Any) -> Operator:
    """Return a product whose first operand has a zero point."""
    first = replace(op.inputs[0], quant=QuantParams(0.5, 7))
    return replace(op, inputs=(first, op.inputs[1]))


def _deep(op: Any) -> Broken:
    """Return a product whose sums may leave int32."""
    a, b = (
        replace(tensor, shape=(1, 2, 2, 60000), dtype="int8", quant=QuantParams(0.5, -128))
        for tensor in op.inputs
    )
    return replace(op, inputs=(a, b), transpose_a=False, transpose_b=True), NPU


BREAKS: dict[str, Break] = {
    "_types": _typed,
    "_border": _border,
    "_activation_zero_point": lambda op: (
        replace(op, in_zero_point=3), _without(asymmetric_activations=False)),
    "_weight_zero_points": _zero_points,
    "_scales": _with_scales,
    "_accumulator": _wide,
    "_operand_zero_points": lambda op: (_shifted(op), _without(asymmetric_activations=False)),
    "_product_sums": _deep,
    "_padding": lambda op: (replace(op, padding=(0, 300)), NPU),
    "_empty_taps": lambda op: (replace(op, weight_zero_point=np.array([-129])), NPU),
    "_unit": lambda op: (op, _without(depthwise_unit=False)),
    "_multiplier": _shrunk,
    "_broadcast": _unlike,
    "same_scale": lambda op: (
        replace(op, outputs=(replace(op.outputs[0], quant=QuantParams(9.0, 0)),)), NPU),
    "_inside": lambda op: (replace(op, steps=(1, 1, 70)), NPU),
    "_room": _misplaced,
    "_value": lambda op: (replace(op, value=300), NPU),
    "_table": lambda op: (replace(op, table=op.table[:255]), NPU),
    "_look_up_unit": lambda op: (op, _without(lut_unit=False)),
    "_sums": lambda op: (replace(
        op, algorithm=SoftmaxAlgorithm.SHIFTMAX, rounding=Rounding.SINGLE_UP,
        scaled=(0, 1 << 30, 0)), NPU),
    "same_shape": _shrunk,
    "_rounding": _rescaling,
    "_shapes": _shrunk,
    "_same_bytes": _shrunk,
    "window_sizes": _strided,
    "padding_sizes": lambda op: (replace(op, padding=(300, 0)), NPU),
    "extents": _tall,
    "integer_types": lambda op: (_tensors(op, dtype="int32"), NPU),
    "channels_last": lambda op: (_tensors(op, layout="NCHW"), NPU),
    "rounding_available": lambda op: (
        _rounds(op, Rounding.FLOAT_RNE), _without(float_requantizer=False)),
    "rounding_defined": lambda op: (_rounds(op, Rounding.HALF_AWAY_F64), NPU),
}  # fmt: skip
"""Constraint -> what makes a sound operator break it."""


def _all() -> list[tuple[str, Constraint]]:
    return [(kind, rule) for kind, cls in operators().items() for rule in cls.constraints]


def test_every_refusal_says_what_it_always_said(golden: Callable[[str, str], None]) -> None:
    lines = []
    for kind, rule in _all():
        operator, npu = BREAKS[rule.__name__](_sound(kind))
        seen = rule(operator, npu)
        assert seen is not None, f"{kind}: {rule.__name__}"
        text = f"{rule_text(rule).rstrip('.')} (seen {seen})"
        assert text in operator.rejections(npu)
        lines.append(f"{kind}: {text}\n")
    golden("rejections.txt", "".join(lines))


@pytest.mark.parametrize("kind", operators())
def test_a_sound_operator_is_not_refused(kind: str) -> None:
    assert _sound(kind).rejections(NPU) == []


def test_every_rule_is_a_sentence() -> None:
    rules = {rule_text(rule) for _, rule in _all()}
    assert [rule for rule in rules if not (rule[:1].isupper() and rule.endswith("."))] == []


def _large(kind: str) -> Operator:
    """Return an operator whose smallest slice of channels needs more than a kibibyte."""
    source = CaseSource(np.random.default_rng(3), border_in=False, border_out=False)
    image = source.tensor((9, 1, 3000) if kind != "dense" else (3000,))
    return operators()[kind].draw(replace(source, given=[image]))


@pytest.mark.parametrize("kind", ["conv2d", "dense"])
def test_an_npu_without_room_refuses(kind: str) -> None:
    operator = _large(kind)
    assert operator.rejections(TINY) == ["no tile of it fits the memories of tiny"]
    with pytest.raises(ScheduleError) as error:
        best_schedule(operator, TINY)
    assert str(error.value) == (
        f"{operator.name}: {kind} has no legal schedule on tiny: seen {operator.describe()}; "
        "limit SPM 1 KiB, ACC 1 KiB; use an NPU with more scratchpad, or leave the operator on "
        "the CPU"
    )


@pytest.mark.parametrize("kind", [kind for kind in operators() if kind not in WITHOUT_KERNEL])
def test_a_schedule_that_does_not_fit_is_refused(kind: str) -> None:
    operator = _sound(kind)
    schedule = Schedule(tile_h=60000, tile_w=60000, tile_oc=60000)
    with pytest.raises(ScheduleError) as error:
        operator.lower(schedule, NPU)
    assert str(error.value) == (
        f"{operator.name}: schedule is not legal on vnpu-256: seen {schedule.describe()}; "
        "limit SPM 256 KiB, ACC 64 KiB; choose one of the operator's schedules"
    )


@pytest.mark.parametrize("kind", WITHOUT_KERNEL)
def test_operators_without_a_kernel_say_so(kind: str) -> None:
    with pytest.raises(ScheduleError, match="has no kernel"):
        _sound(kind).lower(Schedule(), NPU)
