"""The pattern table: which Relax expressions become which NpuGraph operators.

A row is a composite name, the shapes it matches and the function that converts a match. Rows come
first to last; the converter of a row is also its predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import tvm
from tvm.relax.dpl import DFPattern, is_const, is_op, is_tuple, wildcard

from tvm_vnpu.relax.context import Context
from tvm_vnpu.relax.ops import activation, data, eltwise, pool, window

MAX_CONCAT_INPUTS = 16
Make = Callable[[], DFPattern]
Converter = Callable[[Context, tvm.ir.Call, str], None]
PREFIX = "vnpu."


@dataclass(frozen=True, slots=True)
class PatternRow:
    """One operator: its composite is `vnpu.<name>`."""

    name: str
    shapes: Callable[[], Iterator[DFPattern]]
    convert: Converter
    border: bool = False

    @property
    def composite(self) -> str:
        """Return the composite's name."""
        return PREFIX + self.name


def _dq() -> DFPattern:
    return is_op("relax.dequantize")(wildcard(), wildcard(), wildcard())


def _q(inner: DFPattern) -> DFPattern:
    return is_op("relax.quantize")(inner, wildcard(), wildcard())


def _activated(make: Make) -> DFPattern:
    """Return any activation of a fresh `make()`: relu, clip, or a bound on one side."""
    clip = is_op("relax.clip")(make(), wildcard(), wildcard())
    pattern = clip | is_op("relax.nn.relu")(make())
    for name in activation.ONE_SIDED:
        pattern = pattern | is_op(name)(make(), is_const())
    return pattern


def _quantized(make: Make) -> Iterator[DFPattern]:
    """Yield quantize(act(act(x))), quantize(act(x)) and quantize(x)."""
    yield _q(_activated(partial(_activated, make)))
    yield _q(_activated(make))
    yield _q(make())


def _biased(operator: str) -> Iterator[DFPattern]:
    def plain() -> DFPattern:
        return is_op(operator)(_dq(), _dq())

    def reshaped() -> DFPattern:
        return is_op("relax.reshape")(_dq(), wildcard())

    def constant() -> DFPattern:
        return is_op("relax.reshape")(wildcard(), wildcard())

    for bias in (reshaped, _dq, constant):
        yield from _quantized(partial(_binary, "relax.add", plain, bias))
        yield from _quantized(partial(_binary, "relax.add", bias, plain))
    yield from _quantized(plain)


def _binary(name: str, left: Make, right: Make) -> DFPattern:
    return is_op(name)(left(), right())


def _on_dq(name: str) -> DFPattern:
    return is_op(name)(_dq())


def _eltwise() -> Iterator[DFPattern]:
    for name in eltwise.OPERATIONS:
        yield from _quantized(partial(_binary, name, _dq, _dq))


def _unary(*operators: str) -> Callable[[], Iterator[DFPattern]]:
    def shapes() -> Iterator[DFPattern]:
        for name in operators:
            yield from _quantized(partial(_on_dq, name))

    return shapes


def _reshape() -> Iterator[DFPattern]:
    yield _q(is_op("relax.reshape")(_dq(), wildcard()))
    for name in ("relax.flatten", "relax.squeeze", "relax.expand_dims"):
        yield _q(is_op(name)(_dq()))


def _concat() -> Iterator[DFPattern]:
    for count in range(1, MAX_CONCAT_INPUTS + 1):
        yield from _quantized(partial(_concat_of, count))


def _concat_of(count: int) -> DFPattern:
    return is_op("relax.concat")(is_tuple([_dq() for _ in range(count)]))


def _clip() -> Iterator[DFPattern]:
    yield from _quantized(_dq)


def _border_quantize() -> Iterator[DFPattern]:
    yield _q(wildcard())


def _border_dequantize() -> Iterator[DFPattern]:
    yield _dq()


ROWS: tuple[PatternRow, ...] = (
    PatternRow("conv2d", lambda: _biased("relax.nn.conv2d"), window.convert_conv2d),
    PatternRow("dense", lambda: _biased("relax.matmul"), window.convert_matmul),
    PatternRow("eltwise", _eltwise, eltwise.convert_eltwise),
    PatternRow("max_pool2d", _unary("relax.nn.max_pool2d"), pool.convert_max_pool),
    PatternRow("avg_pool2d", _unary("relax.nn.avg_pool2d"), pool.convert_avg_pool),
    PatternRow("mean", _unary("relax.mean"), pool.convert_mean),
    PatternRow("concat", _concat, data.convert_concat),
    PatternRow("reshape", _reshape, data.convert_reshape),
    PatternRow("clip", _clip, data.convert_clip),
    PatternRow("quantize", _border_quantize, data.convert_quantize, border=True),
    PatternRow("dequantize", _border_dequantize, data.convert_dequantize, border=True),
)

BY_COMPOSITE = {row.composite: row for row in ROWS}
COVERED_OPERATORS = frozenset(
    {
        "relax.nn.conv2d", "relax.matmul", "relax.nn.max_pool2d", "relax.nn.avg_pool2d",
        "relax.mean", "relax.concat", "relax.quantize", "relax.dequantize",
        *eltwise.OPERATIONS, *data.RESHAPES, *activation.OPERATORS,
    }
)  # fmt: skip
"""Relax operators that some row takes: others stay on the CPU for want of a pattern."""
