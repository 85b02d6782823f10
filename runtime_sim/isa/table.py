"""The instruction table of vNPU ISA v1: the single source of truth.

Encoder, decoder, disassembler, `vnpu.h`, `docs/isa.md` and the random program generator of the
tests derive from these rows. To add an instruction, add a row here and a semantics function of
the same (lower case) name in `runtime_sim/engines/`.
"""

from __future__ import annotations

from runtime_sim.isa.fields import (
    DType,
    EltwiseOp,
    Field,
    Instruction,
    Queue,
    Rounding,
    SoftmaxAlgorithm,
    extent,
    matrix_operand,
    spm_operand,
    strided_operand,
)

ISA_VERSION = 1
SEMAPHORES = 32

_INT8 = (DType.S8, DType.U8)
_CONVERTIBLE = (DType.S8, DType.U8, DType.F32)


def _dtype(name: str, meaning: str, choices: tuple[DType, ...] = _INT8) -> Field:
    return Field(name, 3, meaning, choices=choices)


def _zero_point(name: str, meaning: str) -> Field:
    return Field(name, 16, meaning, signed=True)


_ROUNDING = Field("rounding", 3, "requantisation mode", choices=tuple(Rounding))
_CLAMP = (
    _zero_point("out_zp", "output zero point, added after rounding"),
    Field("lo", 16, "lower clamp, applied last", signed=True),
    Field("hi", 16, "upper clamp, applied last", signed=True),
)
_WINDOW = (
    extent("kh", "window rows", 8),
    extent("kw", "window columns", 8),
    extent("sh", "row stride", 8),
    extent("sw", "column stride", 8),
)
_PADDING = (
    Field("pad_top", 8, "rows of padding above row 0; rows from in_h on are padding too"),
    Field("pad_left", 8, "columns of padding left of column 0; those from in_w on are padding too"),
)
_DILATION = (extent("dh", "row dilation", 8), extent("dw", "column dilation", 8))
_IN_EXTENT = (extent("in_h", "input rows present"), extent("in_w", "input columns present"))
_OUT_EXTENT = (extent("out_h", "output rows"), extent("out_w", "output columns"))
_CONVOLUTION = (
    _dtype("a_type", "activation type"),
    _dtype("w_type", "weight type"),
    Field("accumulate", 1, "0: ACC is overwritten; 1: added to"),
    *spm_operand("in", "activations"),
    *_IN_EXTENT,
    *_OUT_EXTENT,
    *_WINDOW,
    *_DILATION,
    *_PADDING,
    Field("pad_value", 16, "activation value read in the padding", signed=True),
    _zero_point("in_zp", "activation zero point, subtracted from every activation read"),
    _zero_point("w_zp", "weight zero point, subtracted where w_zp_vector = 0"),
    Field("w_zp_vector", 1, "1: weight zero points are per output channel, read at w_zp_addr"),
    Field("w_zp_addr", 28, "SPM address of one weight zero point per output channel, of w_type"),
    Field("w_addr", 28, "SPM address of the packed weights"),
    Field("acc_addr", 24, "ACC element of output (0, 0, 0)"),
    Field("acc_stride", 16, "ACC elements from an output pixel to the next"),
)


def _dma(what: str) -> tuple[Field, ...]:
    strides = tuple(
        Field(f"dram_stride{i}", 32, f"DRAM bytes between steps of n{i}", signed=True)
        for i in range(3)
    )
    counts = tuple(
        extent(f"n{i}", f"steps of dimension {i} (0 is the outermost)") for i in range(3)
    )
    spm_strides = tuple(
        Field(f"spm_stride{i}", 28, f"SPM bytes between steps of n{i}") for i in range(3)
    )
    return (
        Field("dram", 44, f"DRAM {what}: region << 40 | byte offset"),
        *strides,
        *counts,
        extent("run", "contiguous bytes moved at each step", 24),
        Field("spm_addr", 28, "SPM byte address"),
        *spm_strides,
    )


_DMA_TIMING = (
    "latency once, overlapping the data of the queue's previous command; then n0*n1*n2 runs (those "
    "that touch in DRAM count as one), each in whole bursts, over the memory's bytes per cycle; "
    "one memory serves LD and ST in issue order"
)

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "LOAD",
        0x01,
        Queue.LD,
        _dma("source"),
        "Copy a 4-D strided box from DRAM to SPM.",
        _DMA_TIMING,
    ),
    Instruction(
        "STORE",
        0x02,
        Queue.ST,
        _dma("destination"),
        "Copy a 4-D strided box from SPM to DRAM.",
        _DMA_TIMING,
    ),
    Instruction(
        "CONV",
        0x10,
        Queue.MX,
        (
            *_CONVOLUTION,
            extent("ic", "input channels of this command"),
            extent("oc", "output channels of this command"),
            Field("packed", 1, "1: taps are packed into array rows; needs ic <= array rows / 2"),
            Field("stationary", 1, "0: weights stay in the array, pixels stream; 1: the reverse"),
        ),
        "Convolve a tile: ACC[y,x,o] (+)= sum over taps and ic of (a - in_zp) * (w - w_zp[o]). "
        "Weights are packed as blocks of array-columns output channels, each [kh][kw][ic][block].",
        "ceil(oc / cols) * passes * max(out_h*out_w, rows) + rows + cols - 2, or where stationary "
        "= 1 ceil(out_h*out_w / cols) * passes * max(oc, rows) + rows + cols - 2; passes = kh * kw "
        "* ceil(ic / rows), or ceil(kh * kw * ic / rows) when packed",
    ),
    Instruction(
        "DWCONV",
        0x11,
        Queue.MX,
        (
            *_CONVOLUTION,
            extent("c", "input channels"),
            extent("mult", "output channels per input channel", 8),
        ),
        "Convolve each channel with its own filters: output channel o reads channel o / mult. "
        "Weights are [kh][kw][c * mult].",
        "ceil(c * mult / cols) * ceil(out_h * out_w * kh * kw / (rows * depthwise_rate)) "
        "+ rows + cols - 2",
    ),
    Instruction(
        "MATMUL",
        0x12,
        Queue.MX,
        (
            _dtype("a_type", "type of the first matrix"),
            _dtype("b_type", "type of the second matrix"),
            Field("accumulate", 1, "0: ACC is overwritten; 1: added to"),
            *matrix_operand("a", "first matrix, m x k"),
            *matrix_operand("b", "second matrix, k x n"),
            extent("m", "rows of the first matrix and of the result"),
            extent("k", "columns of the first matrix, rows of the second"),
            extent("n", "columns of the second matrix and of the result"),
            _zero_point("a_zp", "zero point of the first matrix"),
            _zero_point("b_zp", "zero point of the second matrix"),
            Field("acc_addr", 24, "ACC element of result (0, 0)"),
            Field("acc_stride", 16, "ACC elements from a row of the result to the next"),
        ),
        "Multiply two activations: ACC[m,n] (+)= sum over k of (a[m,k] - a_zp) * (b[k,n] - b_zp). "
        "Either may be read transposed: its strides say so.",
        "ceil(n / cols) * ceil(k / rows) * max(m, rows) + rows + cols - 2",
    ),
    Instruction(
        "REQUANT",
        0x20,
        Queue.VX,
        (
            Field("acc_addr", 24, "ACC element of output (0, 0, 0)"),
            Field("acc_stride", 16, "ACC elements from a pixel to the next"),
            extent("h", "rows"),
            extent("w", "columns"),
            extent("c", "channels"),
            *spm_operand("out", "result"),
            _dtype("out_type", "result type"),
            Field("params", 28, "SPM address of one 12-byte record per channel"),
            _ROUNDING,
            *_CLAMP,
        ),
        "Requantise ACC to SPM: clamp(round((acc + bias[c]) * scale[c]) + out_zp, lo, hi).",
        "ceil(h * w * c / lanes)",
    ),
    Instruction(
        "ELTWISE",
        0x21,
        Queue.VX,
        (
            Field("op", 3, "operation", choices=tuple(EltwiseOp)),
            extent("h", "rows"),
            extent("w", "columns"),
            extent("c", "channels"),
            *spm_operand("a", "first operand"),
            *spm_operand("b", "second operand"),
            Field("b_broadcast", 1, "1: the second operand has one channel, used for all"),
            *spm_operand("out", "result"),
            _dtype("a_type", "type of the first operand"),
            _dtype("b_type", "type of the second operand"),
            _dtype("out_type", "result type"),
            _zero_point("a_zp", "zero point of the first operand"),
            _zero_point("b_zp", "zero point of the second operand"),
            Field("left_shift", 5, "bits both operands gain before they are rescaled"),
            Field(
                "a_mult", 32, "multiplier of the first operand (float32 bits in FLOAT_RNE)", True
            ),
            Field("a_shift", 8, "its shift", True),
            Field(
                "b_mult", 32, "multiplier of the second operand (float32 bits in FLOAT_RNE)", True
            ),
            Field("b_shift", 8, "its shift", True),
            Field(
                "out_mult", 32, "multiplier of the result (float32 output scale in FLOAT_RNE)", True
            ),
            Field("out_shift", 8, "its shift", True),
            _ROUNDING,
            *_CLAMP,
        ),
        "Combine two tensors element by element. Both are rescaled, combined, and the result is "
        "rescaled, offset and clamped; MUL multiplies the operands unscaled.",
        "ceil(h * w * c / lanes)",
    ),
    Instruction(
        "MAXPOOL",
        0x22,
        Queue.VX,
        (
            _dtype("type", "element type"),
            *spm_operand("in", "input"),
            *_IN_EXTENT,
            *spm_operand("out", "result"),
            *_OUT_EXTENT,
            extent("c", "channels"),
            *_WINDOW,
            *_PADDING,
            Field("lo", 16, "lower clamp", signed=True),
            Field("hi", 16, "upper clamp", signed=True),
        ),
        "Take the maximum of each window (padding never wins), then clamp.",
        "ceil(out_h * out_w * kh * kw * c / lanes)",
    ),
    Instruction(
        "AVGPOOL",
        0x23,
        Queue.VX,
        (
            _dtype("in_type", "input type"),
            *spm_operand("in", "input"),
            *_IN_EXTENT,
            *spm_operand("out", "result"),
            *_OUT_EXTENT,
            _dtype("out_type", "result type"),
            extent("c", "channels"),
            *_WINDOW,
            *_PADDING,
            _zero_point("in_zp", "input zero point, subtracted from every value read"),
            Field("include_pad", 1, "1: padding counts as elements of value 0"),
            Field("params", 28, "SPM address of the records: record i serves windows of kh*kw - i"),
            _ROUNDING,
            *_CLAMP,
        ),
        "Average each window: sum of (x - in_zp), requantised by the record that its count picks.",
        "ceil(out_h * out_w * kh * kw * c / lanes)",
    ),
    Instruction(
        "CONVERT",
        0x24,
        Queue.VX,
        (
            extent("h", "rows"),
            extent("w", "columns"),
            extent("c", "channels"),
            *strided_operand("in", "input"),
            _dtype("in_type", "input type", _CONVERTIBLE),
            *strided_operand("out", "result"),
            _dtype("out_type", "result type", _CONVERTIBLE),
            _zero_point("in_zp", "input zero point (integer input)"),
            Field(
                "multiplier", 32, "fixed-point multiplier, or float32 bits of the input scale", True
            ),
            Field("shift", 8, "shift of a fixed-point multiplier", True),
            Field("out_scale", 32, "float32 bits of the output scale", True),
            _ROUNDING,
            *_CLAMP,
        ),
        "Move, transpose and convert: quantise (float32 in), dequantise (float32 out) or rescale "
        "(both integer), with free strides on both sides.",
        "ceil(h * w * c / lanes)",
    ),
    Instruction(
        "LUT",
        0x25,
        Queue.VX,
        (
            extent("h", "rows"),
            extent("w", "columns"),
            extent("c", "channels"),
            *spm_operand("in", "input bytes"),
            *spm_operand("out", "result bytes"),
            Field("table_addr", 28, "SPM address of the table: 256 bytes, one for each input byte"),
        ),
        "Look every byte up: out = table[in], where the index is the raw byte (int8 -1 is 255).",
        "ceil(h * w * c / lanes)",
    ),
    Instruction(
        "SOFTMAX",
        0x26,
        Queue.VX,
        (
            Field("algorithm", 2, "how exponentials are taken", choices=tuple(SoftmaxAlgorithm)),
            extent("h", "rows"),
            extent("w", "columns"),
            extent("c", "channels, along which each pixel is normalised"),
            *spm_operand("in", "input"),
            *spm_operand("out", "result"),
            _dtype("in_type", "input type"),
            _dtype("out_type", "result type"),
            Field(
                "in_scale",
                32,
                "EXACT: float32 bits of the input scale; SHIFTMAX: the integer "
                "round(1 / input scale)",
                True,
            ),
            Field(
                "out_mult",
                32,
                "EXACT: float32 bits of the output scale; SHIFTMAX: multiplier "
                "from 1/128 to the output scale",
                True,
            ),
            Field("out_shift", 8, "its shift", True),
            _ROUNDING,
            *_CLAMP,
        ),
        "Normalise the channels of each pixel. EXACT: exp(s * (x - max)) over its sum, in float64, "
        "rounded half to even to the output scale. SHIFTMAX: the integers of I-ViT's Shiftmax "
        "(arXiv 2207.01405, Algorithm 1) as TVM 0.19 computes qnn.softmax: with p = x - max, then "
        "p + (p >> 1) - (p >> 4), and n = in_scale: q = min(-p / n, 20), "
        "e = (((p + q * n) >> 1) + n) << (max q - q), result ((2^30 / sum e) * e) >> 23.",
        "3 * ceil(h * w * c / lanes): one pass for the maximum, one for exponentials and their "
        "sum, one for the quotients",
    ),
    Instruction(
        "FILL",
        0x27,
        Queue.VX,
        (
            extent("h", "rows"),
            extent("w", "columns"),
            extent("c", "channels"),
            *strided_operand("out", "result"),
            Field("value", 8, "the byte written"),
        ),
        "Write one byte to every element of a box of bytes, with free strides.",
        "ceil(h * w * c / lanes)",
    ),
    Instruction(
        "FENCE",
        0x30,
        Queue.CTRL,
        (),
        "The controller waits until every queue is idle.",
        "until all queues are idle",
    ),
    Instruction(
        "COUNTER",
        0x31,
        Queue.CTRL,
        (Field("id", 16, "which counter"),),
        "Latch the cycle counter: the timeline reports the cycle at which it was issued.",
        "0",
    ),
    Instruction(
        "END",
        0x3F,
        Queue.CTRL,
        (),
        "End of the program: all queues drain, all semaphores must be zero.",
        "until all queues are idle",
    ),
)
