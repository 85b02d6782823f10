"""Products of two activations, matrix by matrix: attention scores, weighted values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from codegen import matmul_schedule, reference
from codegen.arithmetic import INTEGER_LIMITS
from codegen.borders import border_of
from codegen.graph import Tensor, quant_of
from codegen.kernel import Kernel
from codegen.matmul_kernel import RECORD_BYTES, MatmulKernel, MatmulLayout, MatmulShape, Matrix
from codegen.ops.base import Arrays, Constraint, Operator, Work, illegal_schedule, kernel_name
from codegen.ops.constraints import (
    channels_last,
    extents,
    integer_types,
    rounding_available,
    unavailable_scale,
)
from codegen.ops.draw import CaseSource
from codegen.quantization import Requant
from codegen.schedule import Schedule
from codegen.space import Knob
from runtime_sim.isa.fields import Rounding
from runtime_sim.npu import NpuConfig

ACC_LIMIT = (1 << 31) - 1


def _shapes(operator: Operator, npu: NpuConfig) -> str | None:
    """The operands must be (S, M, K) and (S, K, N), or their transposes, and the result (S, M, N);
    a stack S of 1 serves all."""
    del npu
    assert isinstance(operator, Matmul)
    shape, out = operator.shape(), operator.outputs[0].hwc
    stacks = {tensor.hwc[0] for tensor in operator.inputs} - {1} or {1}
    sides = (shape.a.extent[0], shape.b.extent[0])
    fits = stacks == {out[0]} and sides == out[1:] and shape.a.extent[1] == shape.b.extent[1]
    return None if fits else " and ".join(str(tensor.hwc) for tensor in operator.inputs)


def _operand_zero_points(operator: Operator, npu: NpuConfig) -> str | None:
    """Both operands must be symmetric on an NPU without asymmetric activations."""
    zero_points = [quant_of(tensor).zero_point for tensor in operator.inputs]
    if npu.capabilities.asymmetric_activations or not any(zero_points):
        return None
    return f"zero points {zero_points[0]} and {zero_points[1]}"


def _scales(operator: Operator, npu: NpuConfig) -> str | None:
    """Scales must be ones that the NPU has: per channel, any value or powers of two."""
    assert isinstance(operator, Matmul)
    return unavailable_scale(operator.requant.scaling, npu)


def _product_sums(operator: Operator, npu: NpuConfig) -> str | None:
    """The accumulator must hold the largest possible sum for any operands of their types:
    2^31 - 1."""
    del npu
    assert isinstance(operator, Matmul)
    bound = operator.shape().a.extent[1]
    for tensor in operator.inputs:
        low, high = INTEGER_LIMITS.get(tensor.dtype, (0, 0))
        zero_point = quant_of(tensor).zero_point
        bound *= max(high - zero_point, zero_point - low)
    return str(bound) if bound > ACC_LIMIT else None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Matmul(Operator):
    """y[s] = requantise((a[s] - za) @ (b[s] - zb) + bias), for each matrix s of a stack.

    Tensors are (S, M, K) and (S, K, N), or (S, K, M) and (S, N, K) where transposed; a stack of
    one serves all. `bias`: int32 [N].
    """

    transpose_a: bool
    transpose_b: bool
    bias: NDArray[np.int32]
    requant: Requant

    kind: ClassVar[str] = "matmul"
    constraints: ClassVar[tuple[Constraint, ...]] = (
        integer_types, channels_last, extents, _shapes, _operand_zero_points, _scales,
        _product_sums, rounding_available,
    )  # fmt: skip

    @classmethod
    def draw(cls, source: CaseSource) -> Matmul:
        """Return a random product: either operand transposed, or one matrix for all."""
        sizes = (1, 2, 5, 8, 16, 17, 24, 33, 40, 70)
        stack = source.pick(1, 1, 2, 3)
        a = source.tensor((stack, source.pick(*sizes), source.pick(*sizes, 130)))
        if source.given:
            a = source.given[0]
        elif stack > 1 and source.chance(0.2):
            a = source.tensor((1, *a.hwc[1:]))
        rows, columns = a.hwc[1:]
        transpose_a, transpose_b = source.chance(0.3), source.chance(0.5)
        m, k = (columns, rows) if transpose_a else (rows, columns)
        n = source.pick(*sizes)
        if a.hwc[0] > 1:
            stack = a.hwc[0]
        stacks = source.pick(stack, stack, 1) if a.hwc[0] == stack else stack
        b = source.input((stacks, n, k) if transpose_b else (stacks, k, n), 0.1)
        out = source.tensor((stack, m, n))
        draft = cls(
            name=source.name(cls.kind), inputs=(a, b), outputs=(out,), transpose_a=transpose_a,
            transpose_b=transpose_b, bias=np.zeros(n, np.int32),
            requant=source.requant(np.ones(n), quant_of(out), out.dtype),
        )  # fmt: skip
        return _calibrated(source, draft)

    @property
    def rounding_mode(self) -> Rounding:
        """Return the rounding mode of the requantisation."""
        return self.requant.scaling.rounding

    def shape(self) -> MatmulShape:
        """Return what the kernel's code depends on."""
        a, b = (border_of(tensor) for tensor in self.inputs)
        scaling = self.requant.scaling
        return MatmulShape(
            a=Matrix(a, self.transpose_a),
            b=Matrix(b, not self.transpose_b),
            target=border_of(self.outputs[0]),
            rounding=int(scaling.rounding),
            per_channel=bool(len(np.unique(scaling.records(self.bias), axis=0)) > 1),
        )

    def signature(self) -> tuple[object, ...]:
        """Return the shape."""
        return (self.kind, self.shape())

    def describe(self) -> str:
        """Return the sizes and what is transposed."""
        m, k, n = self.shape().extent
        text = f"{self.outputs[0].hwc[0]} x {m}x{k}x{n}"
        text += " a^T" if self.transpose_a else ""
        return text + (" b^T" if self.transpose_b else "")

    def schedules(self, npu: NpuConfig) -> list[Schedule]:
        """Return the legal schedules, best estimate first."""
        return list(matmul_schedule.schedules(self.shape(), npu))

    def knobs(self, npu: NpuConfig) -> tuple[Knob, ...]:
        """Return the knobs of a product."""
        return matmul_schedule.knobs(self.shape(), npu)

    def reduced(self, schedule: Schedule) -> Schedule:
        """Return the schedule of the same stream whose knobs without effect have fixed values."""
        return matmul_schedule.canonical(self.shape(), schedule)

    def is_legal(self, schedule: Schedule, npu: NpuConfig) -> bool:
        """Return whether the kernel of a schedule fits `npu`."""
        return matmul_schedule.is_legal(self.shape(), schedule, npu)

    def lower(self, schedule: Schedule, npu: NpuConfig) -> Kernel:
        """Return the kernel of a legal schedule."""
        if not self.is_legal(schedule, npu):
            raise illegal_schedule(self, schedule, npu)
        name = kernel_name(self, schedule)
        return MatmulKernel(self.shape(), schedule).build(name, f"{self.kind} {self.describe()}")

    def scalars(self) -> dict[str, int]:
        """Return zero points and clamps."""
        a, b = (quant_of(tensor).zero_point for tensor in self.inputs)
        low, high = self.requant.low, self.requant.high
        return {"a_zp": a, "b_zp": b, "out_zp": self.requant.zero_point, "lo": low, "hi": high}

    def constants(self, schedule: Schedule, npu: NpuConfig) -> Arrays:
        """Return the parameter records: one a column, or a tile's worth of equal ones."""
        del npu
        records = self.requant.scaling.records(self.bias)
        return {
            "params": records[: MatmulLayout(self.shape(), schedule).params_bytes // RECORD_BYTES]
        }

    def work(self, npu: NpuConfig) -> Work:
        """Return whole array passes, vector passes and compulsory bytes in bursts."""
        m, k, n = self.shape().extent
        burst, out = npu.memory_of(0).burst, self.outputs[0]
        passes = math.ceil(n / npu.array_cols) * math.ceil(k / npu.array_rows)
        sizes = [tensor.nbytes for tensor in self.tensors]
        return Work(
            matrix_cycles=out.hwc[0] * passes * max(m, npu.array_rows),
            vector_elements=out.elements,
            dram_bytes=sum(math.ceil(size / burst) * burst for size in sizes),
            macs=out.elements * k,
        )

    def sums(self, a: NDArray[np.generic], b: NDArray[np.generic]) -> NDArray[np.int64]:
        """Return the reference's sums of centred products, without bias."""
        centred = [
            array.reshape(tensor.hwc).astype(np.int64) - quant_of(tensor).zero_point
            for array, tensor in zip((a, b), self.inputs, strict=True)
        ]
        return reference.multiply(centred[0], centred[1], self.transpose_a, self.transpose_b)

    def reference(self, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the requantised product."""
        sums = self.sums(inputs[0], inputs[1]) + self.bias.astype(np.int64)
        return self.requant.reference(sums).reshape(self.outputs[0].shape)


def _calibrated(source: CaseSource, draft: Matmul) -> Matmul:
    """Return the product with scales that spread its results, and sometimes a bias a column."""
    a, b = (_samples(source, tensor) for tensor in draft.inputs)
    sums = draft.sums(a, b).reshape(-1, len(draft.bias))
    spread = sums.std(axis=0) + 1
    centre = np.full(len(draft.bias), -sums.mean())
    if source.chance(0.5):
        centre = -sums.mean(axis=0)
    else:
        spread = np.full(len(draft.bias), spread.mean())
    bias = np.clip(centre, -(2**31), 2**31 - 1).astype(np.int32)
    requant = source.requant(spread, quant_of(draft.outputs[0]), draft.requant.dtype)
    return replace(draft, bias=bias, requant=requant)


def _samples(source: CaseSource, tensor: Tensor) -> NDArray[np.generic]:
    return tensor.data if tensor.data is not None else source.integers(tensor.hwc, tensor.dtype)
