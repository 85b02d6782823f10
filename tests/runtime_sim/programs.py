"""Random legal commands and programs, drawn from the instruction table.

Every field of a row is drawn by what it is (an enumeration, an extent, a zero point, ...); then
operands are placed in SPM so that they do not overlap. A new instruction whose fields keep to the
table's vocabulary needs nothing here.
"""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import strategies as st

from runtime_sim import npu
from runtime_sim.isa.codec import Words, encode
from runtime_sim.isa.fields import (
    DType,
    EltwiseOp,
    Field,
    Instruction,
    Queue,
    Rounding,
    SoftmaxAlgorithm,
)
from runtime_sim.isa.layout import BY_MNEMONIC
from runtime_sim.isa.table import INSTRUCTIONS
from runtime_sim.numerics import FIXED_POINT_MODES, float32_bits, pack_records
from runtime_sim.plan import Planned, plan_command

CONFIG = npu.load("vnpu-64")
REGION_BYTES = 4096
WORKING = tuple(row for row in INSTRUCTIONS if row.queue != Queue.CTRL)
CONTROL = tuple(row for row in INSTRUCTIONS if row.queue == Queue.CTRL)
_ITEM = {DType.S8: 1, DType.U8: 1, DType.F32: 4}
_RANGE = {DType.S8: (-128, 127), DType.U8: (0, 255), DType.F32: (-128, 127)}
_SMALL = {"kh": 3, "kw": 3, "sh": 2, "sw": 2, "dh": 2, "dw": 2, "mult": 3, "run": 24}
_CHANNELS = ("c", "ic", "oc")
_PLACED = ("_addr", "_stride", "_ring_rows", "_ring_start", "params", "dram")


def drawn_programs(length: int) -> st.SearchStrategy[Words]:
    """Return the strategy that draws programs of so many commands and an END."""
    return st.integers(0, 1 << 32).map(lambda seed: draw_program(Random(seed), length))


def draw_command(random: Random, row: Instruction) -> dict[str, int]:
    """Return the fields of one random legal command of `row` (on CONFIG), header included."""
    f = {field.name: _draw(random, field) for field in row.fields}
    f |= {"opcode": row.opcode, "issue": random.randrange(64), "wait": 0, "post": 0}
    _couple(random, row, f)
    _place(random, f)
    if row.queue in (Queue.LD, Queue.ST):
        _place_transfer(random, f, row)
    return f


def command(f: dict[str, int]) -> Words:
    """Encode a drawn command."""
    row = next(row for row in INSTRUCTIONS if row.opcode == f["opcode"])
    return encode(row.mnemonic, **{k: v for k, v in f.items() if k != "opcode"})


def planned(f: dict[str, int]) -> Planned:
    """Return the plan of a drawn command; raises if it is not legal."""
    return plan_command(f, 0, CONFIG)


def random_memories(random: Random, f: dict[str, int]) -> list[np.ndarray | None]:
    """Return memories with random contents; parameter records are legal ones."""
    spm = np.frombuffer(random.randbytes(CONFIG.spm_bytes), np.uint8).copy()
    acc = np.frombuffer(random.randbytes(CONFIG.acc_elements * 4), np.int32) >> 8
    regions = [
        np.frombuffer(random.randbytes(REGION_BYTES), np.uint8).copy() if region < 4 else None
        for region in range(16)
    ]
    if "params" in f:
        count, magnitude = (f["c"], 23) if "acc_addr" in f else (f["kh"] * f["kw"], 8)
        records = draw_records(random, count, f["rounding"], magnitude)
        spm[f["params"] : f["params"] + records.size] = records.reshape(-1)
    if f.get("in_type") == DType.F32:
        floats = np.array([random.uniform(-40, 40) for _ in range(4096)], np.float32)
        floats[:: random.randrange(50, 90)] = random.choice([np.nan, np.inf, -np.inf, 0.5])
        spm[: floats.nbytes] = floats.view(np.uint8)
    return [spm, acc, *regions]


def draw_records(random: Random, count: int, rounding: int, magnitude: int) -> np.ndarray:
    """Return random parameter records (count, 12) that bring values of 2^magnitude near int8."""
    bias = [random.randrange(-(1 << magnitude), 1 << magnitude) >> 2 for _ in range(count)]
    exponent = [7 - magnitude + random.randrange(-1, 2) for _ in range(count)]
    if rounding in (Rounding.FLOAT_RNE, Rounding.HALF_AWAY_F64):
        scale = [random.uniform(0.5, 1) * 2.0**e for e in exponent]
        return pack_records(bias, rounding, scale=scale)
    multiplier = [random.randrange(1 << 30, 1 << 31) for _ in range(count)]
    return pack_records(bias, rounding, multiplier=multiplier, shift=exponent)


def draw_program(random: Random, length: int) -> Words:
    """Return a causal program for the timeline: random commands with random semaphores, then END.

    Semaphore 4 * producer + consumer connects two queues. Contents of memories are not defined.
    """
    words, pending = [], {}
    for _ in range(length):
        row = random.choice((*WORKING, *WORKING, *WORKING, *CONTROL[:2]))
        f = draw_command(random, row)
        f["issue"] = random.choice((0, 4, 30, 500))
        if row.queue != Queue.CTRL:
            consumer = random.randrange(4)
            for producer in range(4):
                if pending.get((producer, row.queue), 0) and random.random() < 0.6:
                    pending[producer, row.queue] -= 1
                    f["wait"] |= 1 << (4 * producer + row.queue)
            if random.random() < 0.5:
                pending[row.queue, consumer] = pending.get((row.queue, consumer), 0) + 1
                f["post"] = 1 << (4 * row.queue + consumer)
        words.append(command(f))
    words.append(encode("END"))
    return np.concatenate(words)


def _draw(random: Random, field: Field) -> int:
    name = field.name
    if field.choices:
        return int(random.choice(field.choices))
    if name.endswith(_PLACED) or "stride" in name:
        return max(field.minimum, 0)
    if name in _SMALL:
        return random.randrange(1, _SMALL[name] + 1)
    if name in _CHANNELS:
        return random.randrange(1, 20)
    if field.bits == 1:
        return random.randrange(2)
    if name.endswith("_zp"):
        return random.randrange(-20, 21)
    if name.startswith("pad_"):
        return random.randrange(3)
    if name.endswith("shift"):
        return random.randrange(-1, 2) if field.signed else random.randrange(0, 20)
    if field.minimum == 1:
        return random.randrange(1, 7)
    return random.randrange(0, 1 << min(field.bits, 8))


def _couple(random: Random, row: Instruction, f: dict[str, int]) -> None:
    """Make fields agree that the operand rules tie together."""
    if row.mnemonic in ("ELTWISE", "CONVERT") and f["rounding"] == Rounding.HALF_AWAY_F64:
        f["rounding"] = Rounding.FLOAT_RNE
    if f.get("in_type") == DType.F32:
        f["rounding"] = random.choice((Rounding.FLOAT_RNE, Rounding.HALF_AWAY_F64))
    if row.mnemonic == "SOFTMAX":
        exact = f["algorithm"] == SoftmaxAlgorithm.EXACT
        f["rounding"] = Rounding.FLOAT_RNE if exact else random.choice(sorted(FIXED_POINT_MODES))
    is_float = f.get("rounding") == Rounding.FLOAT_RNE or DType.F32 in (
        f.get("in_type"),
        f.get("out_type"),
    )
    for name in ("a_mult", "b_mult", "out_mult", "multiplier", "out_scale"):
        if name in f and (is_float or name == "out_scale"):
            f[name] = float32_bits(random.uniform(0.01, 1.5))
        elif name in f:
            f[name] = random.randrange(1 << 30, 1 << 31)
    if row.mnemonic == "SOFTMAX":
        _couple_softmax(random, f)
    if "left_shift" in f:
        if is_float or f["op"] == EltwiseOp.MUL:
            f["left_shift"] = 0
        f["out_shift"] -= 7 if f["op"] == EltwiseOp.MUL else f["left_shift"]
    for prefix in ("in", "a", "b", "out"):
        if f.get(f"{prefix}_type", f.get("a_type")) == DType.U8 and f"{prefix}_zp" in f:
            f[f"{prefix}_zp"] += 128
    if "lo" in f:
        low, high = _RANGE[DType(f.get("out_type", f.get("type", 0)))]
        f["lo"], f["hi"] = random.choice((low, low + 9)), random.choice((high, high - 9))
    if "pad_value" in f:
        f["pad_value"] = random.randrange(0, 128)
    if f.get("packed"):
        f["ic"] = min(f["ic"], CONFIG.array_rows // 2)


def _couple_softmax(random: Random, f: dict[str, int]) -> None:
    """Give inputs a scale at which no channel takes everything."""
    f["in_scale"] = random.randrange(30, 300)
    if f["algorithm"] == SoftmaxAlgorithm.EXACT:
        f["in_scale"] = float32_bits(random.uniform(0.003, 0.02))
        f["out_mult"] = float32_bits(random.uniform(1 / 512, 1 / 64))


def _place(random: Random, f: dict[str, int]) -> None:
    """Give every SPM operand room of its own, with slack between rows, pixels and operands."""
    cursor = random.randrange(16)
    for prefix in ("in", "a", "b", "out"):
        if f"{prefix}_col_stride" in f:
            cursor = _place_matrix(random, f, prefix, cursor)
        elif f"{prefix}_row_stride" in f:
            cursor = _place_tensor(random, f, prefix, cursor)
    channels = f.get("n", f.get("oc", f.get("c", 1) * f.get("mult", 1)))
    depth = f.get("kh", 1) * f.get("kw", 1) * f.get("ic", 1)
    sizes = {"params": 12 * max(channels, depth), "w_addr": depth * channels, "w_zp_addr": channels}
    sizes["table_addr"] = 256
    for name, size in sizes.items():
        if name in f:
            f[name] = cursor
            cursor += size + random.randrange(8)
    if "acc_addr" in f:
        f["acc_addr"] = random.randrange(64)
        f["acc_stride"] = channels + random.randrange(4)


def _place_tensor(random: Random, f: dict[str, int], prefix: str, cursor: int) -> int:
    rows, columns = (f.get(f"{prefix}_{side}", f.get(side, 0)) for side in "hw")
    channels = f.get("ic", f.get("c", 1))
    if prefix == "b" and f["b_broadcast"]:
        channels = 1
    item = _ITEM[DType(f.get(f"{prefix}_type", f.get("a_type", f.get("type", 0))))]
    order = ["channel", "pixel", "row"]
    if f"{prefix}_channel_stride" in f:
        random.shuffle(order)
    counts = {"channel": channels, "pixel": columns, "row": rows}
    if random.random() < 0.4:
        f[f"{prefix}_ring_rows"] = counts["row"] = rows + random.randrange(3)
        f[f"{prefix}_ring_start"] = random.randrange(counts["row"])
    span = item
    for axis in order:
        step = span
        if f"{prefix}_{axis}_stride" in f:
            f[f"{prefix}_{axis}_stride"] = step = span + random.randrange(4)
        span = step * counts[axis]
    f[f"{prefix}_addr"] = cursor + random.randrange(4)
    return cursor + span + 8


def _place_matrix(random: Random, f: dict[str, int], prefix: str, cursor: int) -> int:
    """Place a matrix, its rows or its columns contiguous but for some slack."""
    counts = {"row": f["m"], "col": f["k"]} if prefix == "a" else {"row": f["k"], "col": f["n"]}
    order, span = ["row", "col"], 1
    random.shuffle(order)
    for axis in order:
        f[f"{prefix}_{axis}_stride"] = span + random.randrange(4)
        span = f[f"{prefix}_{axis}_stride"] * counts[axis]
    f[f"{prefix}_addr"] = cursor + random.randrange(4)
    return cursor + span + 8


def _place_transfer(random: Random, f: dict[str, int], row: Instruction) -> None:
    spans = {"dram": f["run"], "spm": f["run"]}
    f |= {f"n{i}": random.randrange(1, 4) for i in range(3)}
    for i in (2, 1, 0):
        for side in spans:
            step = spans[side] + random.randrange(4) * random.randrange(9)
            f[f"{side}_stride{i}"] = step
            spans[side] = step * f[f"n{i}"]
    f["spm_addr"] = random.randrange(64)
    region = random.choice((0, 1, 2) if row.queue == Queue.LD else (1, 3))
    offset = random.randrange(64)
    if random.random() < 0.2:
        f["dram_stride0"] = -f["dram_stride0"]
        offset += -f["dram_stride0"] * (f["n0"] - 1)
    f["dram"] = region << 40 | offset


def rows_named(*mnemonics: str) -> tuple[Instruction, ...]:
    """Return rows of the table by name."""
    return tuple(BY_MNEMONIC[name] for name in mnemonics)
