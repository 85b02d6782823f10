"""The pattern table: which Relay expressions become which NpuGraph operators.

A row is a composite name, the shapes it matches and the function that converts a match. Rows come
first to last; the converter of a row is also its predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tvm import relay
from tvm.relay.dataflow_pattern import (
    DFPattern,
    is_constant,
    is_op,
    is_tuple,
    wildcard,
)

from tvm_vnpu.relay.context import Context, Placed
from tvm_vnpu.relay.ops import (
    clamps,
    data,
    eltwise,
    lookup,
    matmul,
    moves,
    pool,
    window,
    window_transpose,
    windows,
)

MAX_CONCAT_INPUTS = 8
_LAYER = "a layer must have constant biases, if any, and a qnn.requantize after it"
_AVERAGE = (
    "an average must be of elements that a cast or a qnn.requantize widens, and be narrowed again"
)
_JOINED = f"2 to {MAX_CONCAT_INPUTS} tensors are joined, of constant scales and zero points"
Converter = Callable[[Context, relay.Call, str], Placed]
PREFIX = "vnpu."


@dataclass(frozen=True, slots=True)
class PatternRow:
    """One operator: its composite is `vnpu.<name>`; a match reaches down to one of `anchors`.

    `folds`: another row has the same operator without what this one takes in before it, so that
    a refusal is no reason to stay on the CPU. `form`: what an anchor must have beside it to match.
    """

    name: str
    anchors: tuple[str, ...]
    shapes: Callable[[], Iterator[DFPattern]]
    convert: Converter
    border: bool = False
    folds: bool = False
    form: str = ""

    @property
    def composite(self) -> str:
        """Return the composite's name."""
        return PREFIX + self.name


def _any(count: int) -> list[DFPattern]:
    return [wildcard() for _ in range(count)]


def _operator(name: str, operands: int) -> DFPattern:
    return is_op(name)(*_any(operands))


def _clamped(inner: DFPattern) -> DFPattern:
    """Return a pattern with up to two clamps after `inner`."""
    return inner.optional(_clamp).optional(_clamp)


def _clamp(inner: DFPattern) -> DFPattern:
    clip = is_op("clip")(inner) | is_op("nn.relu")(inner)
    return clip | is_op("maximum")(inner, is_constant()) | is_op("minimum")(inner, is_constant())


def _requantize(inner: DFPattern) -> DFPattern:
    return is_op("qnn.requantize")(inner, *_any(4))


def _biased(inner: DFPattern) -> DFPattern:
    added = is_op("add")(inner, is_constant()) | is_op("add")(is_constant(), inner)
    return inner | is_op("nn.bias_add")(inner, is_constant()) | added


def _layer(name: str) -> Callable[[], Iterator[DFPattern]]:
    def shapes() -> Iterator[DFPattern]:
        yield _clamped(_requantize(_clamped(_biased(_operator(name, 6)))))

    return shapes


def _padded_conv2d() -> Iterator[DFPattern]:
    yield _clamped(_requantize(_clamped(_biased(is_op("qnn.conv2d")(_padded(), *_any(5))))))


def _padded_max_pool() -> Iterator[DFPattern]:
    yield _clamped(is_op("nn.max_pool2d")(_padded()))


def _padded() -> DFPattern:
    return is_op("nn.pad")(wildcard(), is_constant())


def _batch_matmul(swapped: tuple[bool, bool]) -> Callable[[], Iterator[DFPattern]]:
    def shapes() -> Iterator[DFPattern]:
        operands = [_operator("transpose", 1) if swap else wildcard() for swap in swapped]
        product = is_op("qnn.batch_matmul")(*operands, *_any(4))
        yield _clamped(_requantize(_clamped(_biased(product))))

    return shapes


def _eltwise() -> Iterator[DFPattern]:
    for name in eltwise.QUANTISED:
        yield _clamped(_operator(name, 8))


def _comparison() -> Iterator[DFPattern]:
    for name in eltwise.COMPARED:
        yield _operator(name, 2)


def _max_pool() -> Iterator[DFPattern]:
    for name in windows.MAXIMA:
        yield _clamped(_operator(name, 1))


def _average() -> Iterator[DFPattern]:
    for name in windows.AVERAGES:
        for widen in (lambda: is_op("cast")(wildcard()), lambda: _requantize(wildcard())):
            yield _requantize(is_op("cast")(is_op(name)(widen())))
            yield _requantize(is_op(name)(widen()))
            yield is_op("cast")(is_op(name)(widen()))
    yield _operator("qnn.avg_pool2d", 5)


def _lookup() -> Iterator[DFPattern]:
    for name in lookup.OPERATORS:
        yield _clamped(_operator(name, 5))


def _softmax() -> Iterator[DFPattern]:
    yield _clamped(_operator(lookup.SOFTMAX, 5))


def _concat() -> Iterator[DFPattern]:
    for count in range(2, MAX_CONCAT_INPUTS + 1):
        scales = is_tuple([is_constant() for _ in range(count)])
        zero_points = is_tuple([is_constant() for _ in range(count)])
        yield is_op("qnn.concatenate")(is_tuple(_any(count)), scales, zero_points, *_any(2))
        yield is_op("concatenate")(is_tuple(_any(count)))


def _reshape() -> Iterator[DFPattern]:
    for name in data.RESHAPES:
        yield _operator(name, 1)


def _requantized() -> Iterator[DFPattern]:
    yield _clamped(_requantize(wildcard()))


def _clip() -> Iterator[DFPattern]:
    yield _clamp(wildcard())


def _alone(name: str) -> Callable[[], Iterator[DFPattern]]:
    def shapes() -> Iterator[DFPattern]:
        yield _operator(name, 1)

    return shapes


def _pad() -> Iterator[DFPattern]:
    yield _padded()


def _quantize() -> Iterator[DFPattern]:
    yield _operator("qnn.quantize", 3)


def _dequantize() -> Iterator[DFPattern]:
    yield _operator("qnn.dequantize", 3)


_SWAPS = {
    "batch_matmul_swapped": (True, True),
    "batch_matmul_swapped_x": (True, False),
    "batch_matmul_swapped_y": (False, True),
    "batch_matmul": (False, False),
}
_PRODUCTS = tuple(
    PatternRow(
        name, ("qnn.batch_matmul",), _batch_matmul(swapped),
        partial(matmul.convert_batch_matmul, swapped=swapped), form=_LAYER,
    )
    for name, swapped in _SWAPS.items()
)  # fmt: skip

ROWS: tuple[PatternRow, ...] = (
    PatternRow(
        "padded_conv2d", ("qnn.conv2d",), _padded_conv2d, window.convert_padded_conv2d, folds=True
    ),
    PatternRow(
        "padded_max_pool2d",
        ("nn.max_pool2d",),
        _padded_max_pool,
        pool.convert_padded_max_pool,
        folds=True,
    ),  # fmt: skip
    PatternRow("conv2d", ("qnn.conv2d",), _layer("qnn.conv2d"), window.convert_conv2d, form=_LAYER),
    PatternRow("dense", ("qnn.dense",), _layer("qnn.dense"), matmul.convert_any_dense, form=_LAYER),
    *_PRODUCTS,
    PatternRow(
        "conv2d_transpose",
        ("qnn.conv2d_transpose",),
        _layer("qnn.conv2d_transpose"),
        window_transpose.convert_conv2d_transpose,
        form=_LAYER,
    ),
    PatternRow("eltwise", (*eltwise.QUANTISED,), _eltwise, eltwise.convert_eltwise),
    PatternRow("max_pool2d", windows.MAXIMA, _max_pool, pool.convert_max_pool),
    PatternRow(
        "avg_pool2d",
        (*windows.AVERAGES, "qnn.avg_pool2d"),
        _average,
        pool.convert_average,
        form=_AVERAGE,
    ),
    PatternRow("lut", lookup.OPERATORS, _lookup, lookup.convert_lookup),
    PatternRow("softmax", (lookup.SOFTMAX,), _softmax, lookup.convert_softmax),
    PatternRow(
        "concat", ("qnn.concatenate", "concatenate"), _concat, data.convert_concat, form=_JOINED
    ),
    PatternRow("requantize", ("qnn.requantize",), _requantized, data.convert_requantize),
    PatternRow("clip", clamps.OPERATORS, _clip, data.convert_clip),
    PatternRow("comparison", (*eltwise.COMPARED,), _comparison, eltwise.convert_comparison),
    PatternRow("reshape", data.RESHAPES, _reshape, data.convert_reshape),
    PatternRow("transpose", ("transpose",), _alone("transpose"), moves.convert_transpose),
    PatternRow("slice", ("strided_slice",), _alone("strided_slice"), moves.convert_slice),
    PatternRow("pad", ("nn.pad",), _pad, moves.convert_pad),
    PatternRow("quantize", ("qnn.quantize",), _quantize, data.convert_quantize, border=True),
    PatternRow(
        "dequantize", ("qnn.dequantize",), _dequantize, data.convert_dequantize, border=True
    ),
)

BY_COMPOSITE = {row.composite: row for row in ROWS}
