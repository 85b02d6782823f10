"""Products of two activations and transposed convolutions equal TVM's CPU build, or say why not."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.graphs import image, module, requantize, values
from tests.relay.running import both, exact, run
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.codegen_hook import region_program
from tvm_vnpu.relay.region_names import region_functions

X_SCALE, Y_SCALE = 0.05, 0.04


def product(
    x: relay.Expr, y: relay.Expr, *, x_zero_point: int = 3, y_zero_point: int = -5,
    bias: np.ndarray | None = None, out_scale: float = 0.7,
) -> relay.Expr:  # fmt: skip
    """Return a requantised qnn.batch_matmul."""
    sums = relay.qnn.op.batch_matmul(
        x, y, relay.const(x_zero_point), relay.const(y_zero_point),
        relay.const(X_SCALE), relay.const(Y_SCALE),
    )  # fmt: skip
    if bias is not None:
        sums = relay.add(sums, relay.const(bias))
    return requantize(sums, float(np.float32(X_SCALE) * np.float32(Y_SCALE)), 0, out_scale, 4)


def transposed(
    x: relay.Expr, weight: np.ndarray, *, kernel_layout: str = "IOHW", scales: object = 0.01,
    channels: int = 4, axis: int = 1, **attrs: object,
) -> relay.Expr:  # fmt: skip
    """Return a requantised qnn.conv2d_transpose."""
    scale = np.asarray(scales, "float32")
    sums = relay.qnn.op.conv2d_transpose(
        x, relay.const(weight), relay.const(3), relay.const(0), relay.const(0.05),
        relay.const(scale), channels=channels, kernel_layout=kernel_layout, **attrs,
    )  # fmt: skip
    return relay.qnn.op.requantize(
        sums, relay.const(np.float32(0.05) * scale), relay.const(0), relay.const(0.4),
        relay.const(-3), axis=axis, out_dtype="int8",
    )  # fmt: skip


def equal(mod: tvm.IRModule, **feeds: np.ndarray) -> list[str]:
    """Check a module that is one region; returns the kinds of its operators."""
    expected, result = both(mod, feeds)
    for ours, theirs in zip(result, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert len(np.unique(theirs)) > min(8, theirs.size // 2)
    with exact():
        (region,) = region_functions(partition_for_vnpu(mod)).values()
        return [operator.kind for operator in region_program(region).graph.operators]


def reasons(mod: tvm.IRModule) -> set[str]:
    with exact():
        return {p.reason for p in explain(mod).placements if p.device == "cpu"}


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (5, 7, 3), (16, 16, 16), (17, 33, 40)])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_batch_of_products(batch: int, m: int, k: int, n: int) -> None:
    mod = module(product(image(batch, m, k), image(batch, n, k, name="y")))
    x, y = values(batch, m, k), values(batch, n, k, seed=1)
    if m * n * k == 1:
        x[:], y[:] = 100, 90
        expected, result = both(mod, {"x": x, "y": y})
        np.testing.assert_array_equal(result[0], expected[0])
        return
    assert equal(mod, x=x, y=y) == ["matmul"]


def test_either_operand_may_be_transposed() -> None:
    for swap_x, swap_y in [(False, True), (True, False), (True, True)]:
        x, y = image(2, 9, 6), image(2, 11, 6, name="y")
        feeds = {"x": values(2, 9, 6), "y": values(2, 11, 6, seed=1)}
        if swap_x:
            x, feeds["x"] = image(2, 6, 9), values(2, 6, 9)
        if swap_y:
            y, feeds["y"] = image(2, 6, 11, name="y"), values(2, 6, 11, seed=1)
        a = relay.transpose(x, (0, 2, 1)) if swap_x else x
        b = relay.transpose(y, (0, 2, 1)) if swap_y else y
        assert equal(module(product(a, b)), **feeds) == ["matmul"]


@pytest.mark.parametrize(("x", "y"), [(1, 4), (4, 1)])
def test_one_matrix_for_a_whole_stack(x: int, y: int) -> None:
    mod = module(product(image(x, 5, 8), image(y, 6, 8, name="y")))
    assert equal(mod, x=values(x, 5, 8), y=values(y, 6, 8, seed=1)) == ["matmul"]


def test_constant_operands() -> None:
    one, each = values(1, 6, 8, seed=1), values(4, 6, 8, seed=2)
    x = values(4, 5, 8)
    assert equal(module(product(image(4, 5, 8), relay.const(one))), x=x) == ["dense"]
    assert equal(module(product(image(4, 5, 8), relay.const(each))), x=x) == ["matmul"]
    assert equal(module(product(relay.const(each), image(4, 5, 8))), x=x) == ["matmul"]


def test_a_bias_for_each_column() -> None:
    bias = np.arange(-9000, 9000, 3000, "int32")
    mod = module(product(image(2, 5, 8), image(2, 6, 8, name="y"), bias=bias, out_scale=0.4))
    assert equal(mod, x=values(2, 5, 8), y=values(2, 6, 8, seed=1)) == ["matmul"]


def test_attention_is_one_region() -> None:
    """Heads come from tensors of batch 1 and go back: rank 3 flows between the operators."""

    def heads(x: relay.Expr) -> relay.Expr:
        return relay.reshape(x, (4, 6, 8))

    q, k, v = (image(1, 6, 32, name=name) for name in "qkv")
    scores = product(heads(q), heads(k), out_scale=0.5)
    scores = relay.qnn.op.add(
        scores, relay.const(values(1, 6, 6, seed=5)),
        *map(relay.const, (0.5, 4, 0.3, 0, 0.6, 3)),
    )  # fmt: skip
    mixed = product(scores, relay.transpose(heads(v), (0, 2, 1)))
    mod = module(relay.reshape(mixed, (1, 6, 32)))
    feeds = {name: values(1, 6, 32, seed=i) for i, name in enumerate("qkv")}
    kinds = equal(mod, **feeds)
    assert [kind for kind in kinds if kind != "reshape"] == ["matmul", "eltwise", "matmul"]


def test_a_dense_layer_of_computed_weights() -> None:
    sums = relay.qnn.op.dense(
        image(7, 12), image(5, 12, name="w"), relay.const(3), relay.const(-5),
        relay.const(0.05), relay.const(0.04), units=5,
    )  # fmt: skip
    mod = module(requantize(sums, float(np.float32(0.05) * np.float32(0.04)), 0, 0.6, 4))
    assert equal(mod, x=values(7, 12), w=values(5, 12, seed=1)) == ["matmul"]


def test_where_tvm_forgets_a_zero_point() -> None:
    mod = module(product(image(2, 5, 8), image(2, 6, 8, name="y"), x_zero_point=0))
    assert reasons(mod) == {
        "TVM's qnn.batch_matmul forgets the second zero point where the first is 0: seen -5"
    }
    feeds = {"x": values(2, 5, 8), "y": values(2, 6, 8, seed=1)}
    expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])


def test_stacks_of_constants_do_not_meet_images_of_a_batch() -> None:
    pooled = relay.nn.max_pool2d(image(2, 3, 4, 4), (2, 2), strides=(2, 2))
    stacked = product(relay.reshape(pooled, (2, 3, 4)), relay.const(values(2, 5, 4)))
    mod = module(stacked)
    feeds = {"x": values(2, 3, 4, 4)}
    expected, result = both(mod, feeds)
    np.testing.assert_array_equal(result[0], expected[0])


GEOMETRIES = [
    {"kernel_size": (2, 2), "strides": (2, 2)},
    {"kernel_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1)},
    {"kernel_size": (4, 4), "strides": (2, 2), "padding": (1, 1, 1, 1)},
    {"kernel_size": (1, 1), "strides": (3, 3)},
    {"kernel_size": (1, 2), "strides": (3, 2), "output_padding": (2, 1)},
    {"kernel_size": (5, 3), "strides": (1, 2), "padding": (4, 0, 2, 2)},
    {"kernel_size": (3, 3), "strides": (1, 1), "padding": (2, 2, 2, 2)},
    {"kernel_size": (2, 5), "strides": (4, 4), "padding": (1, 3, 0, 2), "output_padding": (3, 1)},
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_transposed_convolution(layout: str, geometry: dict[str, tuple[int, ...]]) -> None:
    shape = (2, 3, 5, 4) if layout == "NCHW" else (2, 5, 4, 3)
    weight = values(3, 4, *geometry["kernel_size"], seed=2)
    axis = 1 if layout == "NCHW" else 3
    scales = [0.01, 0.02, 0.005, 0.03]
    mod = module(
        transposed(image(*shape), weight, scales=scales, axis=axis, data_layout=layout, **geometry)
    )
    kinds = equal(mod, x=values(*shape))
    assert "conv2d_transpose" in kinds


@pytest.mark.parametrize("groups", [2, 4])
def test_transposed_convolution_in_groups(groups: int) -> None:
    mod = module(
        transposed(
            image(1, 4, 5, 5), values(4, 8 // groups, 3, 3), channels=8, groups=groups,
            kernel_size=(3, 3), strides=(2, 2),
        )
    )  # fmt: skip
    assert "conv2d_transpose" in equal(mod, x=values(1, 4, 5, 5))


@pytest.mark.parametrize("layout", ["OIHW", "HWIO", "HWOI"])
def test_kernel_layouts_of_transposed_convolutions(layout: str) -> None:
    weight = values(3, 4, 3, 2).transpose(["IOHW".index(axis) for axis in layout])
    mod = module(
        transposed(
            image(1, 3, 4, 4), np.ascontiguousarray(weight), kernel_layout=layout,
            kernel_size=(3, 2), strides=(2, 1),
        )
    )  # fmt: skip
    assert "conv2d_transpose" in equal(mod, x=values(1, 3, 4, 4))


def test_dilated_transposed_convolutions_stay_on_the_cpu() -> None:
    mod = module(
        transposed(image(1, 3, 4, 4), values(3, 4, 3, 3), kernel_size=(3, 3), dilation=(2, 2))
    )
    assert reasons(mod) == {"transposed convolutions must not be dilated: seen [2, 2]"}


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True)])
def test_flags_that_the_integer_pass_forgets(transpose_a: bool, transpose_b: bool) -> None:
    def real(name: str) -> relay.Expr:
        return relay.qnn.op.dequantize(image(2, 6, 6, name=name), relay.const(0.05), relay.const(3))

    result = relay.nn.batch_matmul(
        real("x"), real("y"), transpose_a=transpose_a, transpose_b=transpose_b
    )
    mod = module(relay.qnn.op.quantize(result, relay.const(0.4), relay.const(2)))
    x, y = (values(2, 6, 6, seed=seed).astype("int64") - 3 for seed in (0, 1))
    a, b = x.swapaxes(1, 2) if transpose_a else x, y.swapaxes(1, 2) if transpose_b else y
    real_result = (a @ b) * (np.float32(0.05) * np.float32(0.05) / np.float32(0.4))
    with exact():
        partitioned = partition_for_vnpu(mod)
        assert len(region_functions(partitioned)) == 1
        (found,) = run(partitioned, {"x": values(2, 6, 6), "y": values(2, 6, 6, seed=1)})
    assert np.abs(found - np.clip(real_result + 2, -128, 127)).max() <= 0.51
