"""What meta.json says: plain frozen records, to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from codegen.assemble import Assembled
from codegen.graph import Tensor
from codegen.program import Layer, NpuProgram
from runtime_sim import verify
from runtime_sim.isa.codec import Words
from runtime_sim.npu import NpuConfig
from runtime_sim.views import ARENA, CONSTANTS, FIRST_ARGUMENT


@dataclass(frozen=True, slots=True)
class LayerRecord:
    """One layer of a region: its source nodes, how it runs and what it must at least do.

    Its commands are [first, last) of the region's stream. `matrix_cycles`, `vector_elements`,
    `dram_bytes` and `macs` are for one image, as `codegen.ops.base.Work` defines them.
    """

    name: str
    nodes: tuple[str, ...]
    operator: str
    detail: str
    kernel: str
    schedule: str
    first: int
    last: int
    macs: int
    matrix_cycles: int
    vector_elements: int
    dram_bytes: int


@dataclass(frozen=True, slots=True)
class RegionTensor:
    """An argument of a region: its size for one image."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int


@dataclass(frozen=True, slots=True)
class RegionRecord:
    """One region: its arguments, its sizes in bytes, its layers in order."""

    name: str
    symbol: str
    commands: int
    constants_bytes: int
    arena_bytes: int
    spm_peak_bytes: int
    acc_peak_bytes: int
    inputs: tuple[RegionTensor, ...]
    outputs: tuple[RegionTensor, ...]
    layers: tuple[LayerRecord, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(table: Mapping[str, Any]) -> RegionRecord:
        """Return the record that `to_dict` described."""
        values = dict(table)
        for side in ("inputs", "outputs"):
            values[side] = tuple(
                RegionTensor(**{**tensor, "shape": tuple(tensor["shape"])})
                for tensor in table[side]
            )
        values["layers"] = tuple(
            LayerRecord(**{**layer, "nodes": tuple(layer["nodes"])}) for layer in table["layers"]
        )
        return RegionRecord(**values)


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A region with its command stream for one image."""

    record: RegionRecord
    words: Words


def region_of(name: str, symbol: str, program: NpuProgram) -> Region:
    """Assemble a program, prove its stream safe and record it.

    Raises VerifyError where the verifier refuses the stream: a fault of the compiler.
    """
    assembled = program.assemble()
    peaks = _verified(program, assembled).peaks
    record = RegionRecord(
        name=name,
        symbol=symbol,
        commands=len(assembled.words),
        constants_bytes=int(program.constants.nbytes),
        arena_bytes=program.arena_bytes,
        spm_peak_bytes=int(peaks["SPM"]),
        acc_peak_bytes=int(peaks["ACC"]),
        inputs=_tensors(program.graph.inputs),
        outputs=_tensors(program.graph.outputs),
        layers=tuple(
            _layer(layer, segment.first, segment.last, program.npu)
            for layer, segment in zip(program.layers, assembled.segments, strict=True)
        ),
    )
    return Region(record, assembled.words)


def _verified(program: NpuProgram, assembled: Assembled) -> verify.Report:
    sizes = {CONSTANTS: int(program.constants.nbytes), ARENA: program.arena_bytes}
    sizes |= {FIRST_ARGUMENT + i: tensor.nbytes for i, tensor in enumerate(program.arguments)}
    first_output = FIRST_ARGUMENT + len(program.graph.inputs)
    outputs = range(first_output, FIRST_ARGUMENT + len(program.arguments))
    return verify.verify(assembled.words, program.npu, sizes, outputs)


def _tensors(tensors: Sequence[Tensor]) -> tuple[RegionTensor, ...]:
    return tuple(RegionTensor(t.name, tuple(t.shape), t.dtype, t.nbytes) for t in tensors)


def _layer(layer: Layer, first: int, last: int, npu: NpuConfig) -> LayerRecord:
    operator, work = layer.operator, layer.operator.work(npu)
    return LayerRecord(
        name="+".join(operator.source_names) or operator.name,
        nodes=tuple(operator.source_names),
        operator=operator.kind,
        detail=operator.describe(),
        kernel=layer.kernel.name,
        schedule=layer.schedule.describe(),
        first=first,
        last=last,
        macs=int(work.macs),
        matrix_cycles=int(work.matrix_cycles),
        vector_elements=int(work.vector_elements),
        dram_bytes=int(work.dram_bytes),
    )
