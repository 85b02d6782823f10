"""The C of a region's entry point under TVM's packed calling convention (tvm-ffi).

The entry checks each DLTensor, fills the command stream by calling the kernels, and hands integers
only to the driver, which it finds by name. Layouts of the FFI structs are those of apache-tvm-ffi
0.1: they are declared here, so the compiler needs no TVM headers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from codegen.compile_c import constants_c
from codegen.controller import lower_program
from codegen.emit_c import emit_programs
from codegen.graph import Tensor
from codegen.program import NpuProgram
from tvm_vnpu.relax.driver_name import DRIVER_NAME


_DLPACK_CODE = {"int8": (0, 8), "uint8": (1, 8), "int32": (0, 32), "float32": (2, 32)}

_ABI = """
typedef struct { uint64_t rc; int32_t type_index; uint32_t pad; void (*deleter)(void *, int); } ffi_object;
typedef struct {
    int32_t type_index;
    uint32_t zero_padding;
    union { int64_t v_int64; double v_float64; void *v_ptr; } value;
} ffi_any;
typedef struct { const char *data; size_t size; } ffi_bytes;
typedef struct {
    void *data;
    struct { int32_t device_type, device_id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

extern int TVMFFIFunctionGetGlobal(const ffi_bytes *name, void **out);
extern int TVMFFIFunctionCall(void *func, ffi_any *args, int32_t num_args, ffi_any *result);
extern int TVMFFIObjectDecRef(void *object);
extern void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);

enum { FFI_INT = 1, FFI_DL_TENSOR_PTR = 7, FFI_TENSOR = 70 };

struct argument { int32_t ndim, code, bits; int64_t bytes; const int64_t *shape; };

static int fail(const char *kind, const char *message)
{
    TVMFFIErrorSetRaisedFromCStr(kind, message);
    return -1;
}

static int bind_tensor(const ffi_any *any, const struct argument *want, int64_t *row, int64_t *batch)
{
    const dl_tensor *t = 0;
    int64_t expected = 1;
    if (any->type_index == FFI_TENSOR) t = (dl_tensor *)((char *)any->value.v_ptr + sizeof(ffi_object));
    else if (any->type_index == FFI_DL_TENSOR_PTR) t = (dl_tensor *)any->value.v_ptr;
    if (!t) return fail("TypeError", "a vNPU region was called with something other than a tensor");
    if (t->dtype.code != want->code || t->dtype.bits != want->bits || t->dtype.lanes != 1)
        return fail("TypeError", "a vNPU region was called with a tensor of another dtype");
    if (t->ndim != want->ndim) return fail("ValueError", "a vNPU region was called with another rank");
    for (int32_t i = t->ndim - 1; i >= 0; --i) {
        if (i > 0 && t->shape[i] != want->shape[i])
            return fail("ValueError", "a vNPU region was called with another shape");
        if (t->strides && t->shape[i] > 1 && t->strides[i] != expected)
            return fail("ValueError", "a vNPU region needs compact tensors: copy the strided one");
        expected *= t->shape[i];
    }
    if (*batch < 0) *batch = t->shape[0];
    if (*batch != t->shape[0])
        return fail("ValueError", "a vNPU region was called with tensors of different batches");
    row[0] = (int64_t)(intptr_t)t->data + (int64_t)t->byte_offset;
    row[1] = want->bytes;
    return 0;
}

static int64_t address(const void *pointer) { return (int64_t)(intptr_t)pointer; }

static int call_driver(const int64_t *integers, int32_t count)
{
    static const char name[] = "%(driver)s";
    const ffi_bytes key = { name, sizeof(name) - 1 };
    ffi_any args[8], result = { 0, 0, { 0 } };
    void *driver = 0;
    int status = TVMFFIFunctionGetGlobal(&key, &driver);
    if (status) return status;
    if (!driver)
        return fail("RuntimeError",
                    "the vNPU driver is not registered: add `import tvm_vnpu.relax` to this program");
    for (int32_t i = 0; i < count; ++i) {
        args[i].type_index = FFI_INT;
        args[i].zero_padding = 0;
        args[i].value.v_int64 = integers[i];
    }
    status = TVMFFIFunctionCall(driver, args, count, &result);
    TVMFFIObjectDecRef(driver);
    return status;
}
"""

_ENTRY = """
__attribute__((visibility("default")))
int __tvm_ffi_%(symbol)s(void *self, const ffi_any *args, int32_t num_args, ffi_any *result);
int __tvm_ffi_%(symbol)s(void *self, const ffi_any *args, int32_t num_args, ffi_any *result)
{
    int64_t table[%(count)d][2], batch = -1;
    vnpu_t vnpu;
    int status;
    (void)self;
    if (num_args != %(count)d) return fail("TypeError", "a vNPU region was called with another arity");
    for (int32_t i = 0; i < num_args; ++i)
        if (bind_tensor(&args[i], &%(prefix)s_arguments[i], table[i], &batch)) return -1;
    result->type_index = 0;
    result->zero_padding = 0;
    result->value.v_int64 = 0;
    if (batch == 0) return 0;
    vnpu_open(&vnpu);
    status = %(prefix)s_emit(&vnpu);
    if (status) {
        vnpu_close(&vnpu);
        return fail("RuntimeError", "a vNPU kernel could not fill its command stream");
    }
    {
        const int64_t call[8] = {
            address(vnpu.words), (int64_t)vnpu.count, address(%(prefix)s_config),
            address(%(prefix)s_constants_begin), %(constants)d, %(arena)d, address(table), batch
        };
        status = call_driver(call, 8);
    }
    vnpu_close(&vnpu);
    return status;
}
"""


def region_c(symbol: str, program: NpuProgram, constants: Path) -> str:
    """Return the translation unit of a region: kernels, constants, and the packed entry.

    `constants`: a file that holds `program.constants`; it is read when the text is compiled. All
    symbols but the entry are static, so several regions link into one library.
    """
    prefix = program.entry.name
    parts = [
        emit_programs({prefix: lower_program(program.entry, program.npu)}, static=True),
        _ABI.replace("%(driver)s", DRIVER_NAME),
        constants_c(f"{prefix}_constants", constants),
        _config(prefix, program),
        _arguments(prefix, program.arguments),
        _ENTRY
        % {
            "symbol": symbol,
            "prefix": prefix,
            "count": len(program.arguments),
            "constants": program.constants.nbytes,
            "arena": program.arena_bytes,
        },
    ]
    return "\n".join(parts)


def _config(prefix: str, program: NpuProgram) -> str:
    """Return the configuration and the argument count, which the driver reads, as a C string."""
    text = json.dumps(
        {"arguments": len(program.arguments), "npu": json.loads(program.npu.to_json())},
        sort_keys=True,
    )
    chunks = [text[start : start + 80] for start in range(0, len(text), 80)]
    literal = "\n".join(f"    {json.dumps(chunk)}" for chunk in chunks)
    return f"static const char {prefix}_config[] =\n{literal};\n"


def _arguments(prefix: str, tensors: Sequence[Tensor]) -> str:
    lines = []
    for index, tensor in enumerate(tensors):
        dims = ", ".join(map(str, memory_shape(tensor)))
        lines.append(f"static const int64_t {prefix}_shape{index}[] = {{ {dims} }};")
    lines.append(f"static const struct argument {prefix}_arguments[] = {{")
    for index, tensor in enumerate(tensors):
        code, bits = _DLPACK_CODE[tensor.dtype]
        rank = len(tensor.shape)
        lines.append(
            f"    {{ {rank}, {code}, {bits}, {tensor.nbytes}, {prefix}_shape{index} }},"
            f"  /* {_safe(tensor.name)} */"
        )
    lines.append("};\n")
    return "\n".join(lines)


def memory_shape(tensor: Tensor) -> tuple[int, ...]:
    """Return a tensor's shape as callers see it: NCHW where it has four axes."""
    if len(tensor.shape) == 4:
        height, width, channels = tensor.hwc
        return (1, channels, height, width)
    return tensor.shape


def _safe(name: str) -> str:
    return name.replace("*/", "* /")
