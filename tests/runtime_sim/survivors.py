"""Why a command with one changed field may still do the same: every reason the mutation test takes.

Each reason is a predicate over the field's name, the command and its mutant. A survivor that no
reason explains is a field that the machine ignores, and fails the test.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime_sim.isa.fields import DType, EltwiseOp, Rounding
from runtime_sim.numerics import FIXED_POINT_MODES
from runtime_sim.views import Operand
from tests.runtime_sim import programs, reference

Fields = dict[str, int]
Reason = Callable[[str, Fields, Fields], bool]

_ARITHMETIC = (
    "_zp", "_mult", "shift", "multiplier", "_scale", "rounding", "lo", "hi", "op", "include_pad",
)  # fmt: skip
_GEOMETRY = ("_stride", "_ring_rows", "_ring_start", "in_h", "in_w", "sh", "sw", "dh", "dw")
_FLOAT_SCALES = (Rounding.FLOAT_RNE, Rounding.HALF_AWAY_F64)


def same_bytes_same_windows(name: str, f: Fields, g: Fields) -> bool:
    """The same bytes are touched in the same windows: the stride of a dimension of one step, a
    ring that does not wrap, a row or column that no window reaches."""
    if not name.endswith(_GEOMETRY) and "stride" not in name:
        return False
    return _places(f) == _places(g) and _windows(f) == _windows(g)


def no_padding_is_read(name: str, f: Fields, g: Fields) -> bool:
    """No window reads padding."""
    return name in ("pad_value", "include_pad") and None not in _windows(f)


def pools_meet_the_same_elements(name: str, f: Fields, g: Fields) -> bool:
    """Every window of a pool meets the same elements; only the padding around them has moved."""
    if name not in ("sh", "sw", "pad_top", "pad_left", "in_h", "in_w") or "acc_addr" in f:
        return False
    return _elements(f) == _elements(g)


def zero_point_vector_decides(name: str, f: Fields, g: Fields) -> bool:
    """w_zp is read only where w_zp_vector = 0, w_zp_addr only where it is 1."""
    return name == ("w_zp" if f.get("w_zp_vector") else "w_zp_addr")


def mode_does_not_read_it(name: str, f: Fields, g: Fields) -> bool:
    """The rounding mode or the operation does not read this field: shifts in the float modes, the
    operands' multipliers of a fixed-point MUL."""
    if name.endswith("shift") and f.get("rounding") in _FLOAT_SCALES:
        return True
    is_operand_scale = name in ("a_mult", "a_shift", "b_mult", "b_shift")
    return is_operand_scale and f["op"] == EltwiseOp.MUL and f["rounding"] in FIXED_POINT_MODES


def types_do_not_read_it(name: str, f: Fields, g: Fields) -> bool:
    """CONVERT reads only what its pair of types and its mode need: no zero point, scale or clamp
    for a float32 side, no output scale for a fixed-point one."""
    if "out_scale" not in f:
        return False
    to_float, from_float = f["out_type"] == DType.F32, f["in_type"] == DType.F32
    unread = {
        "out_scale": to_float or (not from_float and f["rounding"] in FIXED_POINT_MODES),
        "multiplier": from_float,
        "shift": to_float or from_float,
        "in_zp": from_float,
        "out_zp": to_float,
        "lo": to_float,
        "hi": to_float,
        "rounding": to_float,
    }
    return unread.get(name, False)


def same_passes(name: str, f: Fields, g: Fields) -> bool:
    """What is packed and what stays in the array changes only the cycles: here they are equal."""
    return name in ("packed", "stationary")


def same_bytes_filled(name: str, f: Fields, g: Fields) -> bool:
    """FILL writes one value to the same bytes in another order: a ring that it fills whole."""
    if "value" not in f or name == "value":
        return False
    return set(_places(f)[-1]) == set(_places(g)[-1])


def one_channel(name: str, f: Fields, g: Fields) -> bool:
    """With one channel, broadcasting it and reading it are the same."""
    return name == "b_broadcast" and f["c"] == 1


def share_of_one_channel(name: str, f: Fields, g: Fields) -> bool:
    """The softmax of one channel is 1, whatever the input."""
    return "algorithm" in f and f["c"] == 1 and name.startswith("in_")


def no_window_has_elements(name: str, f: Fields, g: Fields) -> bool:
    """All windows lie in the padding, so no element is read, and no record unless it counts."""
    if set(_windows(f)) != {None}:
        return False
    if not f.get("include_pad", 0):
        return True
    return name.startswith(("in_", "pad_")) and set(_windows(g)) == {None}


def types_agree(name: str, f: Fields, g: Fields) -> bool:
    """The values at hand have the same bytes in both types."""
    return name in ("type", "out_type", "in_type", "a_type", "b_type")


def result_is_the_same(name: str, f: Fields, g: Fields) -> bool:
    """Rounding and clamping absorb the difference for every element of this command."""
    return name.endswith(_ARITHMETIC)


REASONS: tuple[Reason, ...] = (
    same_bytes_same_windows,
    no_padding_is_read,
    pools_meet_the_same_elements,
    zero_point_vector_decides,
    mode_does_not_read_it,
    types_do_not_read_it,
    same_passes,
    same_bytes_filled,
    one_channel,
    share_of_one_channel,
    no_window_has_elements,
    types_agree,
    result_is_the_same,
)


def explain(name: str, f: Fields, g: Fields) -> str | None:
    """Return the first reason that explains a survivor, as text; None if there is none."""
    for reason in REASONS:
        if reason(name, f, g):
            return " ".join((reason.__doc__ or "").split())
    return None


def _places(f: Fields) -> list[list[int]]:
    """Return, per operand, where the elements that matter are, in order."""
    step = programs.planned(f).step
    assert step is not None
    if "kh" not in f:
        return [_addresses(operand) for operand in (*step.reads, step.write)]
    pixels = [place for place in _windows(f) if place is not None]
    inputs = [reference.address(f, "in", row, column, 0, DType.U8) for row, column in pixels]
    return [inputs, *(_addresses(operand) for operand in (*step.reads[1:], step.write))]


def _addresses(operand: Operand) -> list[int]:
    places: list[int] = []
    for view in operand.views:
        at = [view.offset]
        for count, stride in zip(view.shape, view.strides):
            at = [base + i * stride for base in at for i in range(count)]
        places += at
    return places


def _elements(f: Fields) -> list[list[tuple[int, int]]]:
    """Return the input pixels that each window meets."""
    return [
        [(row, column) for _, _, row, column in reference.taps(f, y, x)
         if reference.present(f, row, column)]
        for y, x in reference.pixels(f)
    ]  # fmt: skip


def _windows(f: Fields) -> list[tuple[int, int] | None]:
    """Return the input pixel each tap of each window meets; None for padding."""
    if "kh" not in f:
        return []
    return [
        (row, column) if reference.present(f, row, column) else None
        for y, x in reference.pixels(f)
        for _, _, row, column in reference.taps(f, y, x)
    ]
