"""What converting a matched operator needs: tensors by expression, semantics, NPU, results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from tvm import relay

from codegen.borders import border_of
from codegen.graph import QuantParams, Tensor
from codegen.ops.base import Operator
from codegen.ops.convert import Convert
from codegen.ops.reshape import Reshape
from runtime_sim.npu import NpuConfig
from tvm_vnpu.frontend.errors import Unsupported
from tvm_vnpu.relay.layouts import NCHW, NHWC, constant_as_npu, npu_shape, whole_shape
from tvm_vnpu.relay.names import source_names
from tvm_vnpu.relay.reader import Reader, check_zero_points, dtype_of, static_shape
from tvm_vnpu.relay.semantics import Semantics

UNKNOWN = QuantParams(1.0, 0)
"""Stands for parameters that no operator names: those that move or compare bytes need none."""


class NotOneBatch(Unsupported):
    """First axes are no batch: the tensors may still be taken whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """An NPU tensor and the layout of the Relay expression that it is."""

    tensor: Tensor
    layout: str


@dataclass(slots=True)
class Context:
    """Collects the operators that Relay calls become.

    `layout`: what a tensor of four axes is taken for where no operator says it. `borders`: the
    region's parameters as they lie in memory, None until their first reader names layout and
    quantisation. `placed`: what expressions are to the operators. Expressions that are neither
    become placeholders, which is all that a predicate needs. `whole`: a first axis above 1 is no
    batch, for which the stream repeats, but an axis of the one image.
    """

    reader: Reader
    semantics: Semantics
    npu: NpuConfig
    layout: str = NCHW
    borders: dict[relay.Var, Tensor | None] = field(default_factory=dict)
    placed: dict[relay.Expr, Placed] = field(default_factory=dict)
    operators: list[Operator] = field(default_factory=list)
    batch: int | None = None
    inside_composite: bool = False
    whole: bool = False

    def names(self, root: relay.Expr) -> tuple[str, ...]:
        """Return the source nodes of a composite; for a predicate, which sees the whole graph
        above its match, nothing."""
        return source_names(root) if self.inside_composite else ()

    def shape(self, expr: relay.Expr) -> tuple[int, ...]:
        """Return an activation's shape; NotOneBatch if its batch differs from what came before."""
        shape = static_shape(self.reader.value(expr))
        if self.whole:
            return shape
        if shape and self.batch not in (None, shape[0]):
            raise NotOneBatch(
                "all tensors must have one batch", seen=f"{shape[0]} and {self.batch}"
            )
        self.batch = shape[0] if shape else None
        return shape

    def npu_shape(self, shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
        """Return the shape that a Relay tensor has on the NPU."""
        return whole_shape(shape, layout) if self.whole else npu_shape(shape, layout)

    def layout_of(self, *exprs: relay.Expr) -> str:
        """Return the layout of the first expression that has one, else the region's.

        More than four axes are always in Relay's order, which is NHWC's.
        """
        if any(len(static_shape(self.reader.value(expr))) > 4 for expr in exprs):
            return NHWC
        for expr in exprs:
            placed = self.placed.get(self.reader.value(expr))
            if placed is not None:
                return placed.layout
        return self.layout

    def activation(
        self, expr: relay.Expr, quant: QuantParams | None = None, layout: str | None = None
    ) -> Tensor:
        """Return the NHWC tensor that an expression is.

        `quant`: the parameters that its reader names, None if it names none. `layout`: the axes
        that its reader sees. Raises Unsupported for a constant, a dynamic shape, or a rank that
        the NPU does not have.
        """
        value = self.reader.value(expr)
        if isinstance(value, relay.Constant):
            raise Unsupported("at least one operand must not be constant")
        layout = layout or self.layout_of(value)
        tensor = _with_own_zero_point(self._resolve(value, quant, layout), quant)
        if quant is None or tensor.quant == quant:
            return tensor
        view = replace(tensor, name=f"{tensor.name}.requantised", quant=quant)
        self.add(Reshape(name=view.name, inputs=(tensor,), outputs=(view,)))
        return view

    def operand(self, expr: relay.Expr, quant: QuantParams, layout: str, rank: int) -> Tensor:
        """Return an activation, or a constant broadcast to `rank` axes, of an operator."""
        data = self.reader.constant(expr)
        if data is None:
            if len(self.shape(expr)) != rank:
                raise Unsupported("operands must have equally many axes", seen=self.shape(expr))
            return self.activation(expr, quant, layout)
        array = constant_as_npu(data, rank, layout, self.whole)
        tensor = Tensor("constant", tuple(array.shape), data.dtype.name, quant, data=array)
        return _with_own_zero_point(tensor, quant)

    def float_input(self, expr: relay.Expr, quant: QuantParams, layout: str) -> Tensor:
        """Return a float tensor as it lies in memory; it keeps its first reader's `quant`."""
        value = self.reader.value(expr)
        known = self.borders.get(value) if isinstance(value, relay.Var) else None
        tensor = known or self._border(value, quant, layout)
        if isinstance(value, relay.Var) and value in self.borders:
            self.borders[value] = tensor
        return tensor

    def result(
        self, name: str, expr: relay.Expr, quant: QuantParams, layout: str, dtype: str = ""
    ) -> Tensor:
        """Return a new NHWC tensor of the shape that a Relay expression has."""
        shape = self.npu_shape(self.shape(expr), layout)
        return _with_own_zero_point(Tensor(name, shape, dtype or dtype_of(expr), quant), quant)

    def add(self, operator: Operator) -> None:
        """Append an operator."""
        self.operators.append(operator)

    def in_memory_order(self, tensor: Tensor, layout: str, name: str) -> Tensor:
        """Return a tensor with its bytes as Relay orders them, moved only where that differs."""
        planes = replace(tensor, name=name, layout=NCHW, data=None)
        if layout == NHWC or len(tensor.shape) < 4 or not border_of(planes).planar:
            return tensor
        self.add(Convert.move(name, tensor, planes))
        return planes

    def reinterpreted(
        self, tensor: Tensor, layout: str, shape: tuple[int, ...], into: str, name: str
    ) -> Tensor:
        """Return a tensor whose bytes, as Relay orders them, are seen as `shape` in layout `into`.

        `layout`: the axes of `tensor`. Elements move only where Relay's order is not the NPU's.
        """
        ordered = self.in_memory_order(tensor, layout, f"{name}.planes")
        shaped = replace(
            ordered, name=f"{name}.shaped", shape=self.npu_shape(shape, into),
            layout=NCHW if len(shape) == 4 else NHWC,
        )  # fmt: skip
        if into == NHWC or not border_of(shaped).planar:
            shaped = replace(shaped, layout=NHWC)
        self.add(Reshape(name=shaped.name, inputs=(ordered,), outputs=(shaped,)))
        if shaped.layout == NHWC:
            return shaped
        inner = replace(shaped, name=name, layout=NHWC)
        self.add(Convert.move(name, shaped, inner))
        return inner

    def _resolve(self, value: relay.Expr, quant: QuantParams | None, layout: str) -> Tensor:
        if value not in self.placed:
            border = self._border(value, quant or UNKNOWN, layout)
            self.shape(value)
            tensor = replace(border, layout=NHWC)
            if isinstance(value, relay.Var) and value in self.borders:
                planar = border_of(border).planar
                self.borders[value] = border if planar else tensor
                tensor = self._to_nhwc(border) if planar else tensor
            self.placed[value] = Placed(tensor, layout)
        placed = self.placed[value]
        if placed.layout == layout or len(static_shape(value)) < 4:
            return placed.tensor
        name = f"{placed.tensor.name}.{layout.lower()}"
        return self.reinterpreted(placed.tensor, placed.layout, static_shape(value), layout, name)

    def _border(self, value: relay.Expr, quant: QuantParams, layout: str) -> Tensor:
        name = str(getattr(value, "name_hint", "value"))
        axes = static_shape(value)
        shape = self.npu_shape(axes, layout)
        in_memory = NCHW if layout == NCHW and len(axes) == 4 else NHWC
        return Tensor(name, shape, dtype_of(value), quant, in_memory)

    def _to_nhwc(self, border: Tensor) -> Tensor:
        inner = replace(border, name=f"{border.name}.nhwc", layout=NHWC)
        self.add(Convert.move(inner.name, border, inner))
        return inner


def _with_own_zero_point(tensor: Tensor, quant: QuantParams | None) -> Tensor:
    """Return the tensor; Unsupported if `quant` has a zero point that its type does not have."""
    if quant is not None:
        check_zero_points(tensor.dtype, np.array([quant.zero_point], np.int64))
    return tensor
