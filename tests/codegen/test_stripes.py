"""Two 3x3 convolutions chained by stripes through a ring of rows in SPM, never through DRAM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from codegen.assemble import assemble
from codegen.compile_c import emitted_stream
from codegen.conv_plan import ConvLayout
from codegen.emit_c import emit_c
from codegen.expr import as_expr
from codegen.graph import NpuGraph
from codegen.kernel import (
    FLAG_INPUT_RESIDENT,
    FLAG_OUTPUT_KEPT,
    FLAG_WEIGHTS_LOADED,
    Call,
    Kernel,
    Node,
    command,
)
from codegen.memory import place
from codegen.ops.conv2d import Conv2D
from codegen.ops.draw import CaseSource
from codegen.ops.window import calibrated, draw_weights
from codegen.program import EntryBuilder, NpuProgram
from codegen.schedule import Schedule
from runtime_sim.isa.codec import Words, decode
from runtime_sim.isa.layout import BY_MNEMONIC
from runtime_sim.npu import NpuConfig
from runtime_sim.views import split_address
from tests.codegen.drawn import NPUS
from tests.codegen.harness import Case, check_stream
from tests.codegen.streams import assert_equal_streams

ROWS, COLS = 13, 9
SEMAPHORES_EACH, HALO = 12, 2
A, B = 0, 1


def _pair(seed: int) -> tuple[Conv2D, Conv2D]:
    """Return two padded 3x3 convolutions, the second reading the first's result."""
    source = CaseSource(np.random.default_rng(seed), border_in=False, border_out=False)
    x = source.tensor((ROWS, COLS, 5))
    pair: list[Conv2D] = []
    for channels in (20, 7):
        weight = (channels, 3, 3, x.hwc[2])
        fields = draw_weights(source, x, weight, (ROWS, COLS, channels))
        draft = Conv2D(name=source.name("conv"), padding=(1, 1), **fields)
        pair.append(calibrated(source, draft))
        x = pair[-1].outputs[0]
    return pair[0], pair[1]


def _entry(pair: tuple[Conv2D, Conv2D], npu: NpuConfig, stripe: int, spare: int) -> NpuProgram:
    """Return a program that alternates stripes of both layers; the ring has `spare` more rows."""
    graph = NpuGraph("chain", pair, pair[A].inputs, pair[B].outputs, "drawn")
    builder = EntryBuilder(npu, place(graph))
    schedules = [Schedule(tile_h=2, tile_w=COLS, tile_oc=16, tile_ic=op.inputs[0].hwc[2])
                 for op in pair]  # fmt: skip
    kernels = [builder.kernel(op, s) for op, s in zip(pair, schedules)]
    args = [builder.arguments(op, s) for op, s in zip(pair, schedules)]
    layouts = [ConvLayout(op.shape(), s) for op, s in zip(pair, schedules)]
    ring = layouts[A].spm_bytes + layouts[B].spm_bytes
    rows = stripe + HALO + spare
    args[A] |= {"out_spm": as_expr(ring), "out_ring": as_expr(rows)}
    args[B] |= {"in_spm": as_expr(ring), "in_ring": as_expr(rows)}
    args[B] |= {"spm": as_expr(layouts[A].spm_bytes), "sem": as_expr(SEMAPHORES_EACH)}
    args[B] |= {"acc": as_expr(2 * layouts[A].acc_elements)}
    nodes: list[Node] = []
    for which, begin, end in _stripes(stripe):
        flags = (FLAG_OUTPUT_KEPT, FLAG_INPUT_RESIDENT)[which]
        flags |= FLAG_WEIGHTS_LOADED if begin else 0
        moved = {"row_begin": begin, "row_end": end, "flags": flags}
        call = Call(kernels[which], {**args[which], **{k: as_expr(v) for k, v in moved.items()}})
        nodes += [call, command("FENCE")]
    entry = Kernel("chain", (), (*nodes, command("END")))
    return NpuProgram(graph, npu, tuple(builder.layers), entry, builder.blob.array(), 0)


def _stripes(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (layer, first row, end) in order: the first layer runs one halo row ahead."""
    made = 0
    for begin in range(0, ROWS, size):
        end = min(ROWS, begin + size)
        ahead = min(ROWS, end + 1)
        if made < ahead:
            yield A, made, ahead
        yield B, begin, end
        made = ahead


def _traffic(words: Words) -> dict[tuple[str, int], int]:
    """Return the bytes moved, by mnemonic and region."""
    moved: dict[tuple[str, int], int] = {}
    for mnemonic in ("LOAD", "STORE"):
        for fields in decode(words):
            if fields["opcode"] == BY_MNEMONIC[mnemonic].opcode:
                region, _ = split_address(fields["dram"])
                size = fields["n0"] * fields["n1"] * fields["n2"] * fields["run"]
                moved[mnemonic, region] = moved.get((mnemonic, region), 0) + size
    return moved


@pytest.mark.parametrize("spare", [0, 1, 5])
@pytest.mark.parametrize("stripe", [3, 4, 13])
def test_two_convolutions_chain_through_a_ring(stripe: int, spare: int) -> None:
    npu, pair = NPUS["vnpu-64"], _pair(stripe * 8 + spare)
    program = _entry(pair, npu, stripe, spare)
    words = assemble(program.entry, npu).words
    compiled = emitted_stream(emit_c(program.entry, npu, "chain"), "chain")
    assert_equal_streams("chain", words, compiled)
    values = CaseSource(np.random.default_rng(stripe)).values(pair[A].inputs[0])
    check_stream(Case("chain", program.graph, npu, [values]), program, words)

    moved = _traffic(words)
    whole = Schedule(tile_oc=16, tile_ic=99)
    arrays = (array for op in pair for array in op.constants(whole, npu).values())
    constants = sum(array.nbytes for array in arrays)
    assert moved["LOAD", 0] == constants
    assert moved["STORE", 3] == pair[B].outputs[0].nbytes
    assert set(moved) == {("LOAD", 0), ("LOAD", 2), ("STORE", 3)}


def test_a_ring_that_is_too_small_gives_wrong_rows() -> None:
    npu, pair = NPUS["vnpu-64"], _pair(1)
    program = _entry(pair, npu, 4, -1)
    words = assemble(program.entry, npu).words
    values = CaseSource(np.random.default_rng(1)).values(pair[A].inputs[0])
    with pytest.raises(AssertionError, match="Mismatched elements"):
        check_stream(Case("chain", replace(program.graph), npu, [values]), program, words)
