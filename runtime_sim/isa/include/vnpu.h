/* Generated from table.py and vnpu.h.in by `python -m scripts.regen`: do not edit. */
#ifndef VNPU_H
#define VNPU_H

/*
 * The intrinsics of vNPU ISA v1, for generated kernels.
 *
 * Every instruction has a file of sticky registers, one per field:
 *   SET(CONV, in_h, 3);      writes a register;
 *   VAR(CONV, w_addr, i*9);  writes one whose value depends on a loop variable, which costs more;
 *   vnpu_conv(vnpu);         issues a command made of the registers as they stand;
 *   VNPU_ITERATION(6);       charges the cycles of a loop iteration.
 *
 * Without VNPU_SILICON commands go to a growing buffer: vnpu_open, an entry `<symbol>_emit`, then
 * `words` holds `count` commands of 16 little-endian 64-bit words, and vnpu_close. Each command
 * carries the controller cycles since the previous one. The first error stays in `status`.
 *
 * With VNPU_SILICON a register write is a store to mmio[opcode * 64 + register] and issuing is a
 * store to the doorbell mmio[opcode * 64]; the store stalls while the command's queue is full.
 * Cycles are not counted. Set `mmio` to the base of the command interface and `status` to 0.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VNPU_ISA_VERSION 1
#define VNPU_COMMAND_WORDS 16
#define VNPU_COMMAND_CYCLES 4
#define VNPU_FIELD_CYCLES 2
#define VNPU_VARIABLE_FIELD_CYCLES 2
#define VNPU_ISSUE_MAX 0xffffff

enum vnpu_status {
    VNPU_OK = 0,
    VNPU_NO_MEMORY = 1,      /* the command buffer could not grow */
    VNPU_FIELD_RANGE = 2,    /* a value does not fit its register */
    VNPU_ISSUE_RANGE = 3     /* too many controller cycles between two commands */
};

/* Values of enumerated fields. */
enum vnpu_choice {
    VNPU_S8 = 0,
    VNPU_U8 = 1,
    VNPU_SINGLE_UP = 0,
    VNPU_TFLITE_DOUBLE = 1,
    VNPU_TFLITE_RUY = 2,
    VNPU_HALF_AWAY_F64 = 3,
    VNPU_FLOAT_RNE = 4,
    VNPU_TONEAREST = 5,
    VNPU_ADD = 0,
    VNPU_SUB = 1,
    VNPU_MUL = 2,
    VNPU_MIN = 3,
    VNPU_MAX = 4,
    VNPU_F32 = 4,
    VNPU_EXACT = 0,
    VNPU_SHIFTMAX = 1
};

#ifdef VNPU_SILICON

typedef struct vnpu {
    volatile uint64_t *mmio;
    int32_t status;
} vnpu_t;

#define VNPU_ITERATION(cycles) ((void)(cycles))

#else

typedef struct vnpu {
    uint64_t *words;   /* count * VNPU_COMMAND_WORDS words */
    uint64_t count;    /* commands issued */
    uint64_t capacity; /* commands that fit before the buffer grows */
    uint64_t cycles;   /* controller cycles since the last command */
    int32_t status;    /* an enum vnpu_status: the first error */
    uint64_t registers[64][VNPU_COMMAND_WORDS];
} vnpu_t;

#define VNPU_ITERATION(cost) ((void)(vnpu->cycles += (cost)))

static inline void vnpu_open(vnpu_t *vnpu) { memset(vnpu, 0, sizeof *vnpu); }

static inline void vnpu_close(vnpu_t *vnpu) { free(vnpu->words); }

#endif

/* A register: opcode, number, word and lowest bit in the command, bits, whether it is signed. */
#define VNPU_REGISTER(opcode, number, word, low, bits, is_signed) \
    ((uint32_t)(opcode) << 24 | (uint32_t)(number) << 18 | (uint32_t)(word) << 14 | \
     (uint32_t)(low) << 8 | (uint32_t)(bits) << 1 | (uint32_t)(is_signed))

#define SET(mnemonic, field, value) \
    vnpu_write(vnpu, VNPU_##mnemonic##_##field, VNPU_FIELD_CYCLES, (value))
#define VAR(mnemonic, field, value) \
    vnpu_write(vnpu, VNPU_##mnemonic##_##field, VNPU_FIELD_CYCLES + VNPU_VARIABLE_FIELD_CYCLES, \
               (value))

#ifdef VNPU_SILICON

static inline void vnpu_write(vnpu_t *vnpu, uint32_t reg, uint32_t cycles, int64_t value)
{
    (void)cycles;
    vnpu->mmio[(reg >> 24) * 64 + (reg >> 18 & 63)] = (uint64_t)value;
}

static inline void vnpu_issue(vnpu_t *vnpu, uint32_t opcode) { vnpu->mmio[opcode * 64] = 1; }

#else

/* Out of line: kernels are thousands of these calls, and inlining them only costs build time. */
#define VNPU_OUT_OF_LINE static __attribute__((noinline, unused))

VNPU_OUT_OF_LINE void vnpu_fail(vnpu_t *vnpu, int32_t status)
{
    if (vnpu->status == VNPU_OK) vnpu->status = status;
}

VNPU_OUT_OF_LINE void vnpu_write(vnpu_t *vnpu, uint32_t reg, uint32_t cycles, int64_t value)
{
    const uint32_t low = reg >> 8 & 63, bits = reg >> 1 & 63, is_signed = reg & 1;
    const uint64_t mask = (UINT64_C(1) << bits) - 1;
    const uint64_t offset = is_signed ? UINT64_C(1) << (bits - 1) : 0;
    uint64_t *word = &vnpu->registers[reg >> 24][reg >> 14 & 15];
    if ((uint64_t)value + offset > mask) vnpu_fail(vnpu, VNPU_FIELD_RANGE);
    *word = (*word & ~(mask << low)) | ((uint64_t)value & mask) << low;
    vnpu->cycles += cycles;
}

/* Issue a command made of the instruction's registers. */
VNPU_OUT_OF_LINE void vnpu_issue(vnpu_t *vnpu, uint32_t opcode)
{
    uint64_t *command;
    vnpu->cycles += VNPU_COMMAND_CYCLES;
    if (vnpu->cycles > VNPU_ISSUE_MAX) vnpu_fail(vnpu, VNPU_ISSUE_RANGE);
    if (vnpu->count == vnpu->capacity) {
        const uint64_t capacity = vnpu->capacity ? 2 * vnpu->capacity : 256;
        uint64_t *words = realloc(vnpu->words, capacity * VNPU_COMMAND_WORDS * sizeof *words);
        if (!words) {
            vnpu_fail(vnpu, VNPU_NO_MEMORY);
            return;
        }
        vnpu->words = words;
        vnpu->capacity = capacity;
    }
    command = vnpu->words + vnpu->count * VNPU_COMMAND_WORDS;
    memcpy(command, vnpu->registers[opcode], VNPU_COMMAND_WORDS * sizeof *command);
    command[0] |= opcode | (vnpu->cycles & VNPU_ISSUE_MAX) << 8;
    vnpu->count += 1;
    vnpu->cycles = 0;
}

#endif

/* Arithmetic of kernel expressions. */
static inline int64_t vnpu_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t vnpu_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t vnpu_less(int64_t a, int64_t b) { return a < b; }
static inline int64_t vnpu_shl(int64_t a, int64_t b) { return (int64_t)((uint64_t)a << b); }
static inline int64_t vnpu_floor_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }
static inline int64_t vnpu_floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Registers and issue functions of every instruction. */
/* LOAD (LD): Copy a 4-D strided box from DRAM to SPM. */
#define VNPU_LOAD_wait VNPU_REGISTER(0x01, 1, 0, 32, 32, 0)
#define VNPU_LOAD_post VNPU_REGISTER(0x01, 2, 1, 0, 32, 0)
#define VNPU_LOAD_dram VNPU_REGISTER(0x01, 3, 2, 0, 44, 0)
#define VNPU_LOAD_dram_stride0 VNPU_REGISTER(0x01, 4, 3, 0, 32, 1)
#define VNPU_LOAD_dram_stride1 VNPU_REGISTER(0x01, 5, 3, 32, 32, 1)
#define VNPU_LOAD_dram_stride2 VNPU_REGISTER(0x01, 6, 4, 0, 32, 1)
#define VNPU_LOAD_n0 VNPU_REGISTER(0x01, 7, 4, 32, 16, 0)
#define VNPU_LOAD_n1 VNPU_REGISTER(0x01, 8, 4, 48, 16, 0)
#define VNPU_LOAD_n2 VNPU_REGISTER(0x01, 9, 5, 0, 16, 0)
#define VNPU_LOAD_run VNPU_REGISTER(0x01, 10, 5, 16, 24, 0)
#define VNPU_LOAD_spm_addr VNPU_REGISTER(0x01, 11, 6, 0, 28, 0)
#define VNPU_LOAD_spm_stride0 VNPU_REGISTER(0x01, 12, 6, 28, 28, 0)
#define VNPU_LOAD_spm_stride1 VNPU_REGISTER(0x01, 13, 7, 0, 28, 0)
#define VNPU_LOAD_spm_stride2 VNPU_REGISTER(0x01, 14, 7, 28, 28, 0)
static inline void vnpu_load(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x01); }

/* STORE (ST): Copy a 4-D strided box from SPM to DRAM. */
#define VNPU_STORE_wait VNPU_REGISTER(0x02, 1, 0, 32, 32, 0)
#define VNPU_STORE_post VNPU_REGISTER(0x02, 2, 1, 0, 32, 0)
#define VNPU_STORE_dram VNPU_REGISTER(0x02, 3, 2, 0, 44, 0)
#define VNPU_STORE_dram_stride0 VNPU_REGISTER(0x02, 4, 3, 0, 32, 1)
#define VNPU_STORE_dram_stride1 VNPU_REGISTER(0x02, 5, 3, 32, 32, 1)
#define VNPU_STORE_dram_stride2 VNPU_REGISTER(0x02, 6, 4, 0, 32, 1)
#define VNPU_STORE_n0 VNPU_REGISTER(0x02, 7, 4, 32, 16, 0)
#define VNPU_STORE_n1 VNPU_REGISTER(0x02, 8, 4, 48, 16, 0)
#define VNPU_STORE_n2 VNPU_REGISTER(0x02, 9, 5, 0, 16, 0)
#define VNPU_STORE_run VNPU_REGISTER(0x02, 10, 5, 16, 24, 0)
#define VNPU_STORE_spm_addr VNPU_REGISTER(0x02, 11, 6, 0, 28, 0)
#define VNPU_STORE_spm_stride0 VNPU_REGISTER(0x02, 12, 6, 28, 28, 0)
#define VNPU_STORE_spm_stride1 VNPU_REGISTER(0x02, 13, 7, 0, 28, 0)
#define VNPU_STORE_spm_stride2 VNPU_REGISTER(0x02, 14, 7, 28, 28, 0)
static inline void vnpu_store(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x02); }

/* CONV (MX): Convolve a tile: ACC[y,x,o] (+)= sum over taps and ic of (a - in_zp) * (w - w_zp[o]). Weights are packed as blocks of array-columns output channels, each [kh][kw][ic][block]. */
#define VNPU_CONV_wait VNPU_REGISTER(0x10, 1, 0, 32, 32, 0)
#define VNPU_CONV_post VNPU_REGISTER(0x10, 2, 1, 0, 32, 0)
#define VNPU_CONV_a_type VNPU_REGISTER(0x10, 3, 1, 32, 3, 0)
#define VNPU_CONV_w_type VNPU_REGISTER(0x10, 4, 1, 35, 3, 0)
#define VNPU_CONV_accumulate VNPU_REGISTER(0x10, 5, 1, 38, 1, 0)
#define VNPU_CONV_in_addr VNPU_REGISTER(0x10, 6, 2, 0, 28, 0)
#define VNPU_CONV_in_row_stride VNPU_REGISTER(0x10, 7, 2, 28, 24, 0)
#define VNPU_CONV_in_pixel_stride VNPU_REGISTER(0x10, 8, 3, 0, 16, 0)
#define VNPU_CONV_in_ring_rows VNPU_REGISTER(0x10, 9, 3, 16, 14, 0)
#define VNPU_CONV_in_ring_start VNPU_REGISTER(0x10, 10, 3, 30, 14, 0)
#define VNPU_CONV_in_h VNPU_REGISTER(0x10, 11, 3, 44, 16, 0)
#define VNPU_CONV_in_w VNPU_REGISTER(0x10, 12, 4, 0, 16, 0)
#define VNPU_CONV_out_h VNPU_REGISTER(0x10, 13, 4, 16, 16, 0)
#define VNPU_CONV_out_w VNPU_REGISTER(0x10, 14, 4, 32, 16, 0)
#define VNPU_CONV_kh VNPU_REGISTER(0x10, 15, 4, 48, 8, 0)
#define VNPU_CONV_kw VNPU_REGISTER(0x10, 16, 4, 56, 8, 0)
#define VNPU_CONV_sh VNPU_REGISTER(0x10, 17, 5, 0, 8, 0)
#define VNPU_CONV_sw VNPU_REGISTER(0x10, 18, 5, 8, 8, 0)
#define VNPU_CONV_dh VNPU_REGISTER(0x10, 19, 5, 16, 8, 0)
#define VNPU_CONV_dw VNPU_REGISTER(0x10, 20, 5, 24, 8, 0)
#define VNPU_CONV_pad_top VNPU_REGISTER(0x10, 21, 5, 32, 8, 0)
#define VNPU_CONV_pad_left VNPU_REGISTER(0x10, 22, 5, 40, 8, 0)
#define VNPU_CONV_pad_value VNPU_REGISTER(0x10, 23, 5, 48, 16, 1)
#define VNPU_CONV_in_zp VNPU_REGISTER(0x10, 24, 6, 0, 16, 1)
#define VNPU_CONV_w_zp VNPU_REGISTER(0x10, 25, 6, 16, 16, 1)
#define VNPU_CONV_w_zp_vector VNPU_REGISTER(0x10, 26, 6, 32, 1, 0)
#define VNPU_CONV_w_zp_addr VNPU_REGISTER(0x10, 27, 6, 33, 28, 0)
#define VNPU_CONV_w_addr VNPU_REGISTER(0x10, 28, 7, 0, 28, 0)
#define VNPU_CONV_acc_addr VNPU_REGISTER(0x10, 29, 7, 28, 24, 0)
#define VNPU_CONV_acc_stride VNPU_REGISTER(0x10, 30, 8, 0, 16, 0)
#define VNPU_CONV_ic VNPU_REGISTER(0x10, 31, 8, 16, 16, 0)
#define VNPU_CONV_oc VNPU_REGISTER(0x10, 32, 8, 32, 16, 0)
#define VNPU_CONV_packed VNPU_REGISTER(0x10, 33, 8, 48, 1, 0)
#define VNPU_CONV_stationary VNPU_REGISTER(0x10, 34, 8, 49, 1, 0)
static inline void vnpu_conv(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x10); }

/* DWCONV (MX): Convolve each channel with its own filters: output channel o reads channel o / mult. Weights are [kh][kw][c * mult]. */
#define VNPU_DWCONV_wait VNPU_REGISTER(0x11, 1, 0, 32, 32, 0)
#define VNPU_DWCONV_post VNPU_REGISTER(0x11, 2, 1, 0, 32, 0)
#define VNPU_DWCONV_a_type VNPU_REGISTER(0x11, 3, 1, 32, 3, 0)
#define VNPU_DWCONV_w_type VNPU_REGISTER(0x11, 4, 1, 35, 3, 0)
#define VNPU_DWCONV_accumulate VNPU_REGISTER(0x11, 5, 1, 38, 1, 0)
#define VNPU_DWCONV_in_addr VNPU_REGISTER(0x11, 6, 2, 0, 28, 0)
#define VNPU_DWCONV_in_row_stride VNPU_REGISTER(0x11, 7, 2, 28, 24, 0)
#define VNPU_DWCONV_in_pixel_stride VNPU_REGISTER(0x11, 8, 3, 0, 16, 0)
#define VNPU_DWCONV_in_ring_rows VNPU_REGISTER(0x11, 9, 3, 16, 14, 0)
#define VNPU_DWCONV_in_ring_start VNPU_REGISTER(0x11, 10, 3, 30, 14, 0)
#define VNPU_DWCONV_in_h VNPU_REGISTER(0x11, 11, 3, 44, 16, 0)
#define VNPU_DWCONV_in_w VNPU_REGISTER(0x11, 12, 4, 0, 16, 0)
#define VNPU_DWCONV_out_h VNPU_REGISTER(0x11, 13, 4, 16, 16, 0)
#define VNPU_DWCONV_out_w VNPU_REGISTER(0x11, 14, 4, 32, 16, 0)
#define VNPU_DWCONV_kh VNPU_REGISTER(0x11, 15, 4, 48, 8, 0)
#define VNPU_DWCONV_kw VNPU_REGISTER(0x11, 16, 4, 56, 8, 0)
#define VNPU_DWCONV_sh VNPU_REGISTER(0x11, 17, 5, 0, 8, 0)
#define VNPU_DWCONV_sw VNPU_REGISTER(0x11, 18, 5, 8, 8, 0)
#define VNPU_DWCONV_dh VNPU_REGISTER(0x11, 19, 5, 16, 8, 0)
#define VNPU_DWCONV_dw VNPU_REGISTER(0x11, 20, 5, 24, 8, 0)
#define VNPU_DWCONV_pad_top VNPU_REGISTER(0x11, 21, 5, 32, 8, 0)
#define VNPU_DWCONV_pad_left VNPU_REGISTER(0x11, 22, 5, 40, 8, 0)
#define VNPU_DWCONV_pad_value VNPU_REGISTER(0x11, 23, 5, 48, 16, 1)
#define VNPU_DWCONV_in_zp VNPU_REGISTER(0x11, 24, 6, 0, 16, 1)
#define VNPU_DWCONV_w_zp VNPU_REGISTER(0x11, 25, 6, 16, 16, 1)
#define VNPU_DWCONV_w_zp_vector VNPU_REGISTER(0x11, 26, 6, 32, 1, 0)
#define VNPU_DWCONV_w_zp_addr VNPU_REGISTER(0x11, 27, 6, 33, 28, 0)
#define VNPU_DWCONV_w_addr VNPU_REGISTER(0x11, 28, 7, 0, 28, 0)
#define VNPU_DWCONV_acc_addr VNPU_REGISTER(0x11, 29, 7, 28, 24, 0)
#define VNPU_DWCONV_acc_stride VNPU_REGISTER(0x11, 30, 8, 0, 16, 0)
#define VNPU_DWCONV_c VNPU_REGISTER(0x11, 31, 8, 16, 16, 0)
#define VNPU_DWCONV_mult VNPU_REGISTER(0x11, 32, 8, 32, 8, 0)
static inline void vnpu_dwconv(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x11); }

/* MATMUL (MX): Multiply two activations: ACC[m,n] (+)= sum over k of (a[m,k] - a_zp) * (b[k,n] - b_zp). Either may be read transposed: its strides say so. */
#define VNPU_MATMUL_wait VNPU_REGISTER(0x12, 1, 0, 32, 32, 0)
#define VNPU_MATMUL_post VNPU_REGISTER(0x12, 2, 1, 0, 32, 0)
#define VNPU_MATMUL_a_type VNPU_REGISTER(0x12, 3, 1, 32, 3, 0)
#define VNPU_MATMUL_b_type VNPU_REGISTER(0x12, 4, 1, 35, 3, 0)
#define VNPU_MATMUL_accumulate VNPU_REGISTER(0x12, 5, 1, 38, 1, 0)
#define VNPU_MATMUL_a_addr VNPU_REGISTER(0x12, 6, 2, 0, 28, 0)
#define VNPU_MATMUL_a_row_stride VNPU_REGISTER(0x12, 7, 2, 28, 24, 0)
#define VNPU_MATMUL_a_col_stride VNPU_REGISTER(0x12, 8, 3, 0, 24, 0)
#define VNPU_MATMUL_b_addr VNPU_REGISTER(0x12, 9, 3, 24, 28, 0)
#define VNPU_MATMUL_b_row_stride VNPU_REGISTER(0x12, 10, 4, 0, 24, 0)
#define VNPU_MATMUL_b_col_stride VNPU_REGISTER(0x12, 11, 4, 24, 24, 0)
#define VNPU_MATMUL_m VNPU_REGISTER(0x12, 12, 4, 48, 16, 0)
#define VNPU_MATMUL_k VNPU_REGISTER(0x12, 13, 5, 0, 16, 0)
#define VNPU_MATMUL_n VNPU_REGISTER(0x12, 14, 5, 16, 16, 0)
#define VNPU_MATMUL_a_zp VNPU_REGISTER(0x12, 15, 5, 32, 16, 1)
#define VNPU_MATMUL_b_zp VNPU_REGISTER(0x12, 16, 5, 48, 16, 1)
#define VNPU_MATMUL_acc_addr VNPU_REGISTER(0x12, 17, 6, 0, 24, 0)
#define VNPU_MATMUL_acc_stride VNPU_REGISTER(0x12, 18, 6, 24, 16, 0)
static inline void vnpu_matmul(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x12); }

/* REQUANT (VX): Requantise ACC to SPM: clamp(round((acc + bias[c]) * scale[c]) + out_zp, lo, hi). */
#define VNPU_REQUANT_wait VNPU_REGISTER(0x20, 1, 0, 32, 32, 0)
#define VNPU_REQUANT_post VNPU_REGISTER(0x20, 2, 1, 0, 32, 0)
#define VNPU_REQUANT_acc_addr VNPU_REGISTER(0x20, 3, 1, 32, 24, 0)
#define VNPU_REQUANT_acc_stride VNPU_REGISTER(0x20, 4, 2, 0, 16, 0)
#define VNPU_REQUANT_h VNPU_REGISTER(0x20, 5, 2, 16, 16, 0)
#define VNPU_REQUANT_w VNPU_REGISTER(0x20, 6, 2, 32, 16, 0)
#define VNPU_REQUANT_c VNPU_REGISTER(0x20, 7, 2, 48, 16, 0)
#define VNPU_REQUANT_out_addr VNPU_REGISTER(0x20, 8, 3, 0, 28, 0)
#define VNPU_REQUANT_out_row_stride VNPU_REGISTER(0x20, 9, 3, 28, 24, 0)
#define VNPU_REQUANT_out_pixel_stride VNPU_REGISTER(0x20, 10, 4, 0, 16, 0)
#define VNPU_REQUANT_out_ring_rows VNPU_REGISTER(0x20, 11, 4, 16, 14, 0)
#define VNPU_REQUANT_out_ring_start VNPU_REGISTER(0x20, 12, 4, 30, 14, 0)
#define VNPU_REQUANT_out_type VNPU_REGISTER(0x20, 13, 4, 44, 3, 0)
#define VNPU_REQUANT_params VNPU_REGISTER(0x20, 14, 5, 0, 28, 0)
#define VNPU_REQUANT_rounding VNPU_REGISTER(0x20, 15, 5, 28, 3, 0)
#define VNPU_REQUANT_out_zp VNPU_REGISTER(0x20, 16, 5, 31, 16, 1)
#define VNPU_REQUANT_lo VNPU_REGISTER(0x20, 17, 5, 47, 16, 1)
#define VNPU_REQUANT_hi VNPU_REGISTER(0x20, 18, 6, 0, 16, 1)
static inline void vnpu_requant(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x20); }

/* ELTWISE (VX): Combine two tensors element by element. Both are rescaled, combined, and the result is rescaled, offset and clamped; MUL multiplies the operands unscaled. */
#define VNPU_ELTWISE_wait VNPU_REGISTER(0x21, 1, 0, 32, 32, 0)
#define VNPU_ELTWISE_post VNPU_REGISTER(0x21, 2, 1, 0, 32, 0)
#define VNPU_ELTWISE_op VNPU_REGISTER(0x21, 3, 1, 32, 3, 0)
#define VNPU_ELTWISE_h VNPU_REGISTER(0x21, 4, 1, 35, 16, 0)
#define VNPU_ELTWISE_w VNPU_REGISTER(0x21, 5, 2, 0, 16, 0)
#define VNPU_ELTWISE_c VNPU_REGISTER(0x21, 6, 2, 16, 16, 0)
#define VNPU_ELTWISE_a_addr VNPU_REGISTER(0x21, 7, 2, 32, 28, 0)
#define VNPU_ELTWISE_a_row_stride VNPU_REGISTER(0x21, 8, 3, 0, 24, 0)
#define VNPU_ELTWISE_a_pixel_stride VNPU_REGISTER(0x21, 9, 3, 24, 16, 0)
#define VNPU_ELTWISE_a_ring_rows VNPU_REGISTER(0x21, 10, 3, 40, 14, 0)
#define VNPU_ELTWISE_a_ring_start VNPU_REGISTER(0x21, 11, 4, 0, 14, 0)
#define VNPU_ELTWISE_b_addr VNPU_REGISTER(0x21, 12, 4, 14, 28, 0)
#define VNPU_ELTWISE_b_row_stride VNPU_REGISTER(0x21, 13, 5, 0, 24, 0)
#define VNPU_ELTWISE_b_pixel_stride VNPU_REGISTER(0x21, 14, 5, 24, 16, 0)
#define VNPU_ELTWISE_b_ring_rows VNPU_REGISTER(0x21, 15, 5, 40, 14, 0)
#define VNPU_ELTWISE_b_ring_start VNPU_REGISTER(0x21, 16, 6, 0, 14, 0)
#define VNPU_ELTWISE_b_broadcast VNPU_REGISTER(0x21, 17, 6, 14, 1, 0)
#define VNPU_ELTWISE_out_addr VNPU_REGISTER(0x21, 18, 6, 15, 28, 0)
#define VNPU_ELTWISE_out_row_stride VNPU_REGISTER(0x21, 19, 7, 0, 24, 0)
#define VNPU_ELTWISE_out_pixel_stride VNPU_REGISTER(0x21, 20, 7, 24, 16, 0)
#define VNPU_ELTWISE_out_ring_rows VNPU_REGISTER(0x21, 21, 7, 40, 14, 0)
#define VNPU_ELTWISE_out_ring_start VNPU_REGISTER(0x21, 22, 8, 0, 14, 0)
#define VNPU_ELTWISE_a_type VNPU_REGISTER(0x21, 23, 8, 14, 3, 0)
#define VNPU_ELTWISE_b_type VNPU_REGISTER(0x21, 24, 8, 17, 3, 0)
#define VNPU_ELTWISE_out_type VNPU_REGISTER(0x21, 25, 8, 20, 3, 0)
#define VNPU_ELTWISE_a_zp VNPU_REGISTER(0x21, 26, 8, 23, 16, 1)
#define VNPU_ELTWISE_b_zp VNPU_REGISTER(0x21, 27, 8, 39, 16, 1)
#define VNPU_ELTWISE_left_shift VNPU_REGISTER(0x21, 28, 8, 55, 5, 0)
#define VNPU_ELTWISE_a_mult VNPU_REGISTER(0x21, 29, 9, 0, 32, 1)
#define VNPU_ELTWISE_a_shift VNPU_REGISTER(0x21, 30, 9, 32, 8, 1)
#define VNPU_ELTWISE_b_mult VNPU_REGISTER(0x21, 31, 10, 0, 32, 1)
#define VNPU_ELTWISE_b_shift VNPU_REGISTER(0x21, 32, 10, 32, 8, 1)
#define VNPU_ELTWISE_out_mult VNPU_REGISTER(0x21, 33, 11, 0, 32, 1)
#define VNPU_ELTWISE_out_shift VNPU_REGISTER(0x21, 34, 11, 32, 8, 1)
#define VNPU_ELTWISE_rounding VNPU_REGISTER(0x21, 35, 11, 40, 3, 0)
#define VNPU_ELTWISE_out_zp VNPU_REGISTER(0x21, 36, 11, 43, 16, 1)
#define VNPU_ELTWISE_lo VNPU_REGISTER(0x21, 37, 12, 0, 16, 1)
#define VNPU_ELTWISE_hi VNPU_REGISTER(0x21, 38, 12, 16, 16, 1)
static inline void vnpu_eltwise(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x21); }

/* MAXPOOL (VX): Take the maximum of each window (padding never wins), then clamp. */
#define VNPU_MAXPOOL_wait VNPU_REGISTER(0x22, 1, 0, 32, 32, 0)
#define VNPU_MAXPOOL_post VNPU_REGISTER(0x22, 2, 1, 0, 32, 0)
#define VNPU_MAXPOOL_type VNPU_REGISTER(0x22, 3, 1, 32, 3, 0)
#define VNPU_MAXPOOL_in_addr VNPU_REGISTER(0x22, 4, 1, 35, 28, 0)
#define VNPU_MAXPOOL_in_row_stride VNPU_REGISTER(0x22, 5, 2, 0, 24, 0)
#define VNPU_MAXPOOL_in_pixel_stride VNPU_REGISTER(0x22, 6, 2, 24, 16, 0)
#define VNPU_MAXPOOL_in_ring_rows VNPU_REGISTER(0x22, 7, 2, 40, 14, 0)
#define VNPU_MAXPOOL_in_ring_start VNPU_REGISTER(0x22, 8, 3, 0, 14, 0)
#define VNPU_MAXPOOL_in_h VNPU_REGISTER(0x22, 9, 3, 14, 16, 0)
#define VNPU_MAXPOOL_in_w VNPU_REGISTER(0x22, 10, 3, 30, 16, 0)
#define VNPU_MAXPOOL_out_addr VNPU_REGISTER(0x22, 11, 4, 0, 28, 0)
#define VNPU_MAXPOOL_out_row_stride VNPU_REGISTER(0x22, 12, 4, 28, 24, 0)
#define VNPU_MAXPOOL_out_pixel_stride VNPU_REGISTER(0x22, 13, 5, 0, 16, 0)
#define VNPU_MAXPOOL_out_ring_rows VNPU_REGISTER(0x22, 14, 5, 16, 14, 0)
#define VNPU_MAXPOOL_out_ring_start VNPU_REGISTER(0x22, 15, 5, 30, 14, 0)
#define VNPU_MAXPOOL_out_h VNPU_REGISTER(0x22, 16, 5, 44, 16, 0)
#define VNPU_MAXPOOL_out_w VNPU_REGISTER(0x22, 17, 6, 0, 16, 0)
#define VNPU_MAXPOOL_c VNPU_REGISTER(0x22, 18, 6, 16, 16, 0)
#define VNPU_MAXPOOL_kh VNPU_REGISTER(0x22, 19, 6, 32, 8, 0)
#define VNPU_MAXPOOL_kw VNPU_REGISTER(0x22, 20, 6, 40, 8, 0)
#define VNPU_MAXPOOL_sh VNPU_REGISTER(0x22, 21, 6, 48, 8, 0)
#define VNPU_MAXPOOL_sw VNPU_REGISTER(0x22, 22, 6, 56, 8, 0)
#define VNPU_MAXPOOL_pad_top VNPU_REGISTER(0x22, 23, 7, 0, 8, 0)
#define VNPU_MAXPOOL_pad_left VNPU_REGISTER(0x22, 24, 7, 8, 8, 0)
#define VNPU_MAXPOOL_lo VNPU_REGISTER(0x22, 25, 7, 16, 16, 1)
#define VNPU_MAXPOOL_hi VNPU_REGISTER(0x22, 26, 7, 32, 16, 1)
static inline void vnpu_maxpool(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x22); }

/* AVGPOOL (VX): Average each window: sum of (x - in_zp), requantised by the record that its count picks. */
#define VNPU_AVGPOOL_wait VNPU_REGISTER(0x23, 1, 0, 32, 32, 0)
#define VNPU_AVGPOOL_post VNPU_REGISTER(0x23, 2, 1, 0, 32, 0)
#define VNPU_AVGPOOL_in_type VNPU_REGISTER(0x23, 3, 1, 32, 3, 0)
#define VNPU_AVGPOOL_in_addr VNPU_REGISTER(0x23, 4, 1, 35, 28, 0)
#define VNPU_AVGPOOL_in_row_stride VNPU_REGISTER(0x23, 5, 2, 0, 24, 0)
#define VNPU_AVGPOOL_in_pixel_stride VNPU_REGISTER(0x23, 6, 2, 24, 16, 0)
#define VNPU_AVGPOOL_in_ring_rows VNPU_REGISTER(0x23, 7, 2, 40, 14, 0)
#define VNPU_AVGPOOL_in_ring_start VNPU_REGISTER(0x23, 8, 3, 0, 14, 0)
#define VNPU_AVGPOOL_in_h VNPU_REGISTER(0x23, 9, 3, 14, 16, 0)
#define VNPU_AVGPOOL_in_w VNPU_REGISTER(0x23, 10, 3, 30, 16, 0)
#define VNPU_AVGPOOL_out_addr VNPU_REGISTER(0x23, 11, 4, 0, 28, 0)
#define VNPU_AVGPOOL_out_row_stride VNPU_REGISTER(0x23, 12, 4, 28, 24, 0)
#define VNPU_AVGPOOL_out_pixel_stride VNPU_REGISTER(0x23, 13, 5, 0, 16, 0)
#define VNPU_AVGPOOL_out_ring_rows VNPU_REGISTER(0x23, 14, 5, 16, 14, 0)
#define VNPU_AVGPOOL_out_ring_start VNPU_REGISTER(0x23, 15, 5, 30, 14, 0)
#define VNPU_AVGPOOL_out_h VNPU_REGISTER(0x23, 16, 5, 44, 16, 0)
#define VNPU_AVGPOOL_out_w VNPU_REGISTER(0x23, 17, 6, 0, 16, 0)
#define VNPU_AVGPOOL_out_type VNPU_REGISTER(0x23, 18, 6, 16, 3, 0)
#define VNPU_AVGPOOL_c VNPU_REGISTER(0x23, 19, 6, 19, 16, 0)
#define VNPU_AVGPOOL_kh VNPU_REGISTER(0x23, 20, 6, 35, 8, 0)
#define VNPU_AVGPOOL_kw VNPU_REGISTER(0x23, 21, 6, 43, 8, 0)
#define VNPU_AVGPOOL_sh VNPU_REGISTER(0x23, 22, 6, 51, 8, 0)
#define VNPU_AVGPOOL_sw VNPU_REGISTER(0x23, 23, 7, 0, 8, 0)
#define VNPU_AVGPOOL_pad_top VNPU_REGISTER(0x23, 24, 7, 8, 8, 0)
#define VNPU_AVGPOOL_pad_left VNPU_REGISTER(0x23, 25, 7, 16, 8, 0)
#define VNPU_AVGPOOL_in_zp VNPU_REGISTER(0x23, 26, 7, 24, 16, 1)
#define VNPU_AVGPOOL_include_pad VNPU_REGISTER(0x23, 27, 7, 40, 1, 0)
#define VNPU_AVGPOOL_params VNPU_REGISTER(0x23, 28, 8, 0, 28, 0)
#define VNPU_AVGPOOL_rounding VNPU_REGISTER(0x23, 29, 8, 28, 3, 0)
#define VNPU_AVGPOOL_out_zp VNPU_REGISTER(0x23, 30, 8, 31, 16, 1)
#define VNPU_AVGPOOL_lo VNPU_REGISTER(0x23, 31, 8, 47, 16, 1)
#define VNPU_AVGPOOL_hi VNPU_REGISTER(0x23, 32, 9, 0, 16, 1)
static inline void vnpu_avgpool(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x23); }

/* CONVERT (VX): Move, transpose and convert: quantise (float32 in), dequantise (float32 out) or rescale (both integer), with free strides on both sides. */
#define VNPU_CONVERT_wait VNPU_REGISTER(0x24, 1, 0, 32, 32, 0)
#define VNPU_CONVERT_post VNPU_REGISTER(0x24, 2, 1, 0, 32, 0)
#define VNPU_CONVERT_h VNPU_REGISTER(0x24, 3, 1, 32, 16, 0)
#define VNPU_CONVERT_w VNPU_REGISTER(0x24, 4, 1, 48, 16, 0)
#define VNPU_CONVERT_c VNPU_REGISTER(0x24, 5, 2, 0, 16, 0)
#define VNPU_CONVERT_in_addr VNPU_REGISTER(0x24, 6, 2, 16, 28, 0)
#define VNPU_CONVERT_in_row_stride VNPU_REGISTER(0x24, 7, 3, 0, 24, 0)
#define VNPU_CONVERT_in_pixel_stride VNPU_REGISTER(0x24, 8, 3, 24, 24, 0)
#define VNPU_CONVERT_in_channel_stride VNPU_REGISTER(0x24, 9, 4, 0, 24, 0)
#define VNPU_CONVERT_in_ring_rows VNPU_REGISTER(0x24, 10, 4, 24, 14, 0)
#define VNPU_CONVERT_in_ring_start VNPU_REGISTER(0x24, 11, 4, 38, 14, 0)
#define VNPU_CONVERT_in_type VNPU_REGISTER(0x24, 12, 4, 52, 3, 0)
#define VNPU_CONVERT_out_addr VNPU_REGISTER(0x24, 13, 5, 0, 28, 0)
#define VNPU_CONVERT_out_row_stride VNPU_REGISTER(0x24, 14, 5, 28, 24, 0)
#define VNPU_CONVERT_out_pixel_stride VNPU_REGISTER(0x24, 15, 6, 0, 24, 0)
#define VNPU_CONVERT_out_channel_stride VNPU_REGISTER(0x24, 16, 6, 24, 24, 0)
#define VNPU_CONVERT_out_ring_rows VNPU_REGISTER(0x24, 17, 6, 48, 14, 0)
#define VNPU_CONVERT_out_ring_start VNPU_REGISTER(0x24, 18, 7, 0, 14, 0)
#define VNPU_CONVERT_out_type VNPU_REGISTER(0x24, 19, 7, 14, 3, 0)
#define VNPU_CONVERT_in_zp VNPU_REGISTER(0x24, 20, 7, 17, 16, 1)
#define VNPU_CONVERT_multiplier VNPU_REGISTER(0x24, 21, 8, 0, 32, 1)
#define VNPU_CONVERT_shift VNPU_REGISTER(0x24, 22, 8, 32, 8, 1)
#define VNPU_CONVERT_out_scale VNPU_REGISTER(0x24, 23, 9, 0, 32, 1)
#define VNPU_CONVERT_rounding VNPU_REGISTER(0x24, 24, 9, 32, 3, 0)
#define VNPU_CONVERT_out_zp VNPU_REGISTER(0x24, 25, 9, 35, 16, 1)
#define VNPU_CONVERT_lo VNPU_REGISTER(0x24, 26, 10, 0, 16, 1)
#define VNPU_CONVERT_hi VNPU_REGISTER(0x24, 27, 10, 16, 16, 1)
static inline void vnpu_convert(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x24); }

/* LUT (VX): Look every byte up: out = table[in], where the index is the raw byte (int8 -1 is 255). */
#define VNPU_LUT_wait VNPU_REGISTER(0x25, 1, 0, 32, 32, 0)
#define VNPU_LUT_post VNPU_REGISTER(0x25, 2, 1, 0, 32, 0)
#define VNPU_LUT_h VNPU_REGISTER(0x25, 3, 1, 32, 16, 0)
#define VNPU_LUT_w VNPU_REGISTER(0x25, 4, 1, 48, 16, 0)
#define VNPU_LUT_c VNPU_REGISTER(0x25, 5, 2, 0, 16, 0)
#define VNPU_LUT_in_addr VNPU_REGISTER(0x25, 6, 2, 16, 28, 0)
#define VNPU_LUT_in_row_stride VNPU_REGISTER(0x25, 7, 3, 0, 24, 0)
#define VNPU_LUT_in_pixel_stride VNPU_REGISTER(0x25, 8, 3, 24, 16, 0)
#define VNPU_LUT_in_ring_rows VNPU_REGISTER(0x25, 9, 3, 40, 14, 0)
#define VNPU_LUT_in_ring_start VNPU_REGISTER(0x25, 10, 4, 0, 14, 0)
#define VNPU_LUT_out_addr VNPU_REGISTER(0x25, 11, 4, 14, 28, 0)
#define VNPU_LUT_out_row_stride VNPU_REGISTER(0x25, 12, 5, 0, 24, 0)
#define VNPU_LUT_out_pixel_stride VNPU_REGISTER(0x25, 13, 5, 24, 16, 0)
#define VNPU_LUT_out_ring_rows VNPU_REGISTER(0x25, 14, 5, 40, 14, 0)
#define VNPU_LUT_out_ring_start VNPU_REGISTER(0x25, 15, 6, 0, 14, 0)
#define VNPU_LUT_table_addr VNPU_REGISTER(0x25, 16, 6, 14, 28, 0)
static inline void vnpu_lut(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x25); }

/* SOFTMAX (VX): Normalise the channels of each pixel. EXACT: exp(s * (x - max)) over its sum, in float64, rounded half to even to the output scale. SHIFTMAX: the integers of I-ViT's Shiftmax (arXiv 2207.01405, Algorithm 1) as TVM 0.19 computes qnn.softmax: with p = x - max, then p + (p >> 1) - (p >> 4), and n = in_scale: q = min(-p / n, 20), e = (((p + q * n) >> 1) + n) << (max q - q), result ((2^30 / sum e) * e) >> 23. */
#define VNPU_SOFTMAX_wait VNPU_REGISTER(0x26, 1, 0, 32, 32, 0)
#define VNPU_SOFTMAX_post VNPU_REGISTER(0x26, 2, 1, 0, 32, 0)
#define VNPU_SOFTMAX_algorithm VNPU_REGISTER(0x26, 3, 1, 32, 2, 0)
#define VNPU_SOFTMAX_h VNPU_REGISTER(0x26, 4, 1, 34, 16, 0)
#define VNPU_SOFTMAX_w VNPU_REGISTER(0x26, 5, 2, 0, 16, 0)
#define VNPU_SOFTMAX_c VNPU_REGISTER(0x26, 6, 2, 16, 16, 0)
#define VNPU_SOFTMAX_in_addr VNPU_REGISTER(0x26, 7, 2, 32, 28, 0)
#define VNPU_SOFTMAX_in_row_stride VNPU_REGISTER(0x26, 8, 3, 0, 24, 0)
#define VNPU_SOFTMAX_in_pixel_stride VNPU_REGISTER(0x26, 9, 3, 24, 16, 0)
#define VNPU_SOFTMAX_in_ring_rows VNPU_REGISTER(0x26, 10, 3, 40, 14, 0)
#define VNPU_SOFTMAX_in_ring_start VNPU_REGISTER(0x26, 11, 4, 0, 14, 0)
#define VNPU_SOFTMAX_out_addr VNPU_REGISTER(0x26, 12, 4, 14, 28, 0)
#define VNPU_SOFTMAX_out_row_stride VNPU_REGISTER(0x26, 13, 5, 0, 24, 0)
#define VNPU_SOFTMAX_out_pixel_stride VNPU_REGISTER(0x26, 14, 5, 24, 16, 0)
#define VNPU_SOFTMAX_out_ring_rows VNPU_REGISTER(0x26, 15, 5, 40, 14, 0)
#define VNPU_SOFTMAX_out_ring_start VNPU_REGISTER(0x26, 16, 6, 0, 14, 0)
#define VNPU_SOFTMAX_in_type VNPU_REGISTER(0x26, 17, 6, 14, 3, 0)
#define VNPU_SOFTMAX_out_type VNPU_REGISTER(0x26, 18, 6, 17, 3, 0)
#define VNPU_SOFTMAX_in_scale VNPU_REGISTER(0x26, 19, 6, 20, 32, 1)
#define VNPU_SOFTMAX_out_mult VNPU_REGISTER(0x26, 20, 7, 0, 32, 1)
#define VNPU_SOFTMAX_out_shift VNPU_REGISTER(0x26, 21, 7, 32, 8, 1)
#define VNPU_SOFTMAX_rounding VNPU_REGISTER(0x26, 22, 7, 40, 3, 0)
#define VNPU_SOFTMAX_out_zp VNPU_REGISTER(0x26, 23, 7, 43, 16, 1)
#define VNPU_SOFTMAX_lo VNPU_REGISTER(0x26, 24, 8, 0, 16, 1)
#define VNPU_SOFTMAX_hi VNPU_REGISTER(0x26, 25, 8, 16, 16, 1)
static inline void vnpu_softmax(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x26); }

/* FILL (VX): Write one byte to every element of a box of bytes, with free strides. */
#define VNPU_FILL_wait VNPU_REGISTER(0x27, 1, 0, 32, 32, 0)
#define VNPU_FILL_post VNPU_REGISTER(0x27, 2, 1, 0, 32, 0)
#define VNPU_FILL_h VNPU_REGISTER(0x27, 3, 1, 32, 16, 0)
#define VNPU_FILL_w VNPU_REGISTER(0x27, 4, 1, 48, 16, 0)
#define VNPU_FILL_c VNPU_REGISTER(0x27, 5, 2, 0, 16, 0)
#define VNPU_FILL_out_addr VNPU_REGISTER(0x27, 6, 2, 16, 28, 0)
#define VNPU_FILL_out_row_stride VNPU_REGISTER(0x27, 7, 3, 0, 24, 0)
#define VNPU_FILL_out_pixel_stride VNPU_REGISTER(0x27, 8, 3, 24, 24, 0)
#define VNPU_FILL_out_channel_stride VNPU_REGISTER(0x27, 9, 4, 0, 24, 0)
#define VNPU_FILL_out_ring_rows VNPU_REGISTER(0x27, 10, 4, 24, 14, 0)
#define VNPU_FILL_out_ring_start VNPU_REGISTER(0x27, 11, 4, 38, 14, 0)
#define VNPU_FILL_value VNPU_REGISTER(0x27, 12, 4, 52, 8, 0)
static inline void vnpu_fill(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x27); }

/* FENCE (CTRL): The controller waits until every queue is idle. */
#define VNPU_FENCE_wait VNPU_REGISTER(0x30, 1, 0, 32, 32, 0)
#define VNPU_FENCE_post VNPU_REGISTER(0x30, 2, 1, 0, 32, 0)
static inline void vnpu_fence(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x30); }

/* COUNTER (CTRL): Latch the cycle counter: the timeline reports the cycle at which it was issued. */
#define VNPU_COUNTER_wait VNPU_REGISTER(0x31, 1, 0, 32, 32, 0)
#define VNPU_COUNTER_post VNPU_REGISTER(0x31, 2, 1, 0, 32, 0)
#define VNPU_COUNTER_id VNPU_REGISTER(0x31, 3, 1, 32, 16, 0)
static inline void vnpu_counter(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x31); }

/* END (CTRL): End of the program: all queues drain, all semaphores must be zero. */
#define VNPU_END_wait VNPU_REGISTER(0x3f, 1, 0, 32, 32, 0)
#define VNPU_END_post VNPU_REGISTER(0x3f, 2, 1, 0, 32, 0)
static inline void vnpu_end(vnpu_t *vnpu) { vnpu_issue(vnpu, 0x3f); }

#endif
