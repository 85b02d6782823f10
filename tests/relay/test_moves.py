"""Padding, slices, splits, transpositions and tensors of many axes, against TVM's CPU build."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.graphs import conv2d, image, module, values
from tests.relay.running import both, exact
from tvm_vnpu.relay import explain, partition_for_vnpu
from tvm_vnpu.relay.build_graph import composite_calls, composite_name
from tvm_vnpu.relay.region_names import region_functions

CONV_ZERO_POINT = 3
SIDES = ((0, 0), (0, 0), (1, 0), (0, 1))


def composites(mod: tvm.IRModule) -> list[list[str]]:
    """Return the composites of each region, without their prefix."""
    with exact():
        regions = region_functions(partition_for_vnpu(mod)).values()
    return [[composite_name(c).removeprefix("vnpu.") for c in composite_calls(f)] for f in regions]


def reasons(mod: tvm.IRModule) -> set[str]:
    """Return why operators stay on the CPU."""
    with exact():
        return {p.reason for p in explain(mod).placements if p.device == "cpu"}


def check(body: relay.Expr, expected: list[list[str]] | None = None) -> None:
    """Compare all outputs of an expression, on random inputs."""
    mod = module(body)
    if expected is not None:
        assert composites(mod) == expected
    feeds = {}
    for number, var in enumerate(mod["main"].params):
        shape = tuple(int(size) for size in var.type_annotation.shape)
        dtype = str(var.type_annotation.dtype)
        feeds[str(var.name_hint)] = values(*shape, dtype=dtype, seed=number)
    theirs, ours = both(mod, feeds)
    assert len(theirs) == len(ours)
    for a, b in zip(theirs, ours, strict=True):
        np.testing.assert_array_equal(b, a)


def padded(value: int, widths: tuple[tuple[int, int], ...] = SIDES) -> relay.Expr:
    """Return an image with padding around it."""
    return relay.nn.pad(image(1, 3, 8, 8), widths, relay.const(value, "int8"))


@pytest.mark.parametrize("value", [-128, -1, 0, 77, 127])
def test_padding_by_any_value_on_any_side(value: int) -> None:
    check(padded(value, ((0, 0), (1, 2), (0, 3), (4, 0))), [["pad"]])


def test_padding_with_the_zero_point_becomes_a_convolutions_own() -> None:
    check(conv2d(padded(CONV_ZERO_POINT), 4), [["padded_conv2d"]])


@pytest.mark.parametrize(
    ("value", "widths"),
    [
        (0, SIDES),
        (CONV_ZERO_POINT, ((0, 0), (0, 0), (2, 2), (0, 0))),  # with its own, as many as the kernel
    ],
)
def test_other_padding_before_a_convolution_is_an_operator(
    value: int, widths: tuple[tuple[int, int], ...]
) -> None:
    check(conv2d(padded(value, widths), 4), [["pad", "conv2d"]])


def test_padded_channels_are_an_operator() -> None:
    wide = relay.nn.pad(image(1, 2, 8, 8), ((0, 0), (0, 1), (0, 0), (0, 0)), relay.const(3, "int8"))
    check(conv2d(wide, 4), [["pad", "conv2d"]])


def test_padding_that_others_read_is_an_operator() -> None:
    whole = padded(CONV_ZERO_POINT)
    check(relay.Tuple([conv2d(whole, 4), relay.clip(whole, -9, 9)]))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("value", "names"), [(-128, ["padded_max_pool2d"]), (0, ["pad", "max_pool2d"])]
)
def test_padding_by_the_least_value_becomes_a_max_pools_own(
    value: int, names: list[str], layout: str
) -> None:
    shape, widths = (1, 3, 8, 7), SIDES
    if layout == "NHWC":
        shape, widths = (1, 8, 7, 3), (SIDES[0], SIDES[2], SIDES[3], SIDES[1])
    whole = relay.nn.pad(image(*shape), widths, relay.const(value, "int8"))
    check(relay.nn.max_pool2d(whole, (2, 2), (2, 2), layout=layout), [names])


def test_padding_of_other_kinds_is_refused() -> None:
    x = image(1, 3, 8, 8)
    for mode in ("edge", "reflect"):
        mod = module(relay.nn.pad(x, SIDES, 0, pad_mode=mode))
        assert reasons(mod) == {f"padding must be constant: seen {mode}"}
    assert reasons(module(relay.nn.pad(x, ((1, 0), *SIDES[1:]), 0))) == {
        "the batch must not be padded: seen (1, 0)"
    }
    assert reasons(module(relay.nn.pad(x, SIDES, 0.5))) == {
        "padding must have one integer value: seen 0.5"
    }


@pytest.mark.parametrize(
    ("begin", "end", "strides", "axes"),
    [
        ([0, 0, 2, 0], [1, 3, 8, 9], [1, 1, 3, 1], None),
        ([0, 1, -5, 2], [1, 2, 8, -1], [1, 1, 2, 4], None),
        ([1, 3], [3, 4], [2, 1], [1, 3]),
        ([-100], [100], [2], [2]),
    ],
)
def test_slices(
    begin: list[int], end: list[int], strides: list[int], axes: list[int] | None
) -> None:
    check(relay.strided_slice(image(1, 3, 8, 9), begin, end, strides, axes=axes), [["slice"]])


def test_a_slice_that_says_sizes() -> None:
    x = image(1, 3, 8, 9)
    check(relay.strided_slice(x, [0, 1, 2, 3], [1, 2, -1, 4], slice_mode="size"), [["slice"]])


def test_slices_backwards_or_of_the_batch_are_refused() -> None:
    x = image(2, 3, 8, 8)
    backwards = relay.strided_slice(x, [7], [0], [-1], axes=[2])
    assert reasons(module(backwards)) == {"the steps of a slice must be positive: seen -1"}
    half = relay.strided_slice(x, [1], [2], axes=[0])
    assert reasons(module(half)) == {
        "a slice must keep the batch: seen (2, 3, 8, 8) to (1, 3, 8, 8)"
    }


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_the_parts_of_a_split_meet_inside_a_region(axis: int) -> None:
    left, right = relay.split(image(1, 4, 6, 8), 2, axis=axis)
    check(relay.maximum(left, right), [["slice", "slice", "comparison"]])


def test_the_parts_of_a_split_cross_regions() -> None:
    parts = relay.split(conv2d(image(1, 3, 8, 8), 6), (1, 4), axis=1)
    mixed = relay.concatenate([parts[1], relay.reverse(parts[1], 3)], 1)
    check(relay.Tuple([relay.nn.max_pool2d(mixed, (2, 2)), parts[0], parts[2]]))


def test_a_split_may_be_a_result_as_it_is() -> None:
    parts = relay.split(image(1, 6, 4, 4), 3, axis=1)
    check(parts.astuple(), [["slice"]] * 3)
    check(relay.concatenate(parts.astuple(), 2), [["slice", "slice", "slice", "concat"]])


def test_partitioning_moves_again_changes_nothing() -> None:
    parts = relay.split(relay.reverse(padded(5), 3), 3, axis=2)
    mod = module(relay.nn.softmax(relay.cast(relay.maximum(parts[0], parts[1]), "float32")))
    with exact():
        once = partition_for_vnpu(mod)
        tvm.ir.assert_structural_equal(once, partition_for_vnpu(once))
    assert len(region_functions(once)) == 2


def test_a_split_of_floats_stays_a_split() -> None:
    parts = relay.split(image(1, 6, 4, 4, dtype="float32"), 3, axis=1)
    assert reasons(module(parts.astuple())) == {"the NPU has no pattern for split"}


@pytest.mark.parametrize("axes", list(permutations((1, 2, 3))))
@pytest.mark.parametrize("inner", [False, True])
def test_every_transposition_of_an_image(axes: tuple[int, ...], inner: bool) -> None:
    x: relay.Expr = image(1, 3, 8, 5)
    if inner:
        x = relay.nn.max_pool2d(x, (2, 2))
    result = relay.transpose(x, (0, *axes))
    if inner:
        result = relay.clip(result, -50, 90)
    check(result)
    assert reasons(module(result)) == set()


def test_transpositions_of_three_axes_and_of_batches() -> None:
    check(relay.transpose(image(1, 7, 9), (0, 2, 1)), [["transpose"]])
    check(relay.transpose(image(3, 4, 5, 6), (0, 3, 1, 2)), [["transpose"]])
    check(relay.transpose(image(1, 1, 5, 6), (1, 0, 3, 2)), [["transpose"]])
    assert reasons(module(relay.transpose(image(1, 3, 8), (2, 0, 1)))) == {
        "a transposition must keep the batch first: seen [2, 0, 1]"
    }


@pytest.mark.parametrize("inner", [False, True])
def test_channels_are_shuffled_by_way_of_five_axes(inner: bool) -> None:
    x: relay.Expr = conv2d(image(1, 3, 6, 5), 6) if inner else image(1, 6, 6, 5)
    five = relay.transpose(relay.reshape(x, (1, 2, 3, 6, 5)), (0, 2, 1, 3, 4))
    result = relay.reshape(five, (1, 6, 6, 5))
    if inner:
        result = relay.nn.max_pool2d(result, (2, 2))
    names = ["reshape", "transpose", "reshape"]
    check(result, [["conv2d", *names, "max_pool2d"] if inner else names])


def test_many_axes_that_collapse_to_three() -> None:
    x = image(1, 2, 3, 4, 5, 2)
    check(relay.transpose(x, (0, 3, 4, 5, 1, 2)), [["transpose"]])
    check(relay.strided_slice(x, [1], [4], [2], axes=[3]), [["slice"]])
    check(relay.nn.pad(x, ((0, 0), (0, 0), (1, 2), (0, 0), (0, 0), (0, 0)), 5), [["pad"]])
    check(relay.clip(relay.squeeze(relay.expand_dims(x, 3, 2), [3]), -7, 80))
    check(relay.concatenate([x, x], 2), [["concat"]])


def test_many_axes_that_do_not_collapse_are_refused() -> None:
    x = image(1, 2, 3, 4, 5)
    assert reasons(module(relay.transpose(x, (0, 4, 3, 2, 1)))) == {
        "the axes of an image must collapse to three: those next to each other that stay so: "
        "seen [0, 4, 3, 2, 1]"
    }
    sliced = relay.strided_slice(x, [0, 1, 1, 1, 1], [1, 2, 3, 3, 4])
    assert reasons(module(sliced)) == set()  # one of the first axis: three are left
    sliced = relay.strided_slice(x, [0, 0, 1, 1, 1], [1, 2, 3, 3, 4])
    assert reasons(module(sliced)) == {
        "the axes of an image must collapse to three: those next to each other that are kept "
        "whole: seen [2, 3, 4, 5]"
    }
    assert reasons(module(relay.concatenate([x, x], 4))) == {
        "the axis must be one of the first four: seen axis 4"
    }


def test_a_reshape_that_drops_the_batch_takes_tensors_whole() -> None:
    mod = module(relay.reshape(image(2, 3, 4), (6, 4)))
    assert reasons(mod) == set()
    expected, result = both(mod, {"x": values(2, 3, 4)})
    np.testing.assert_array_equal(result[0], expected[0])
    assert reasons(module(relay.reshape(image(2, 3, 4), (24,)))) == {
        "a reshape must keep the batch: seen (2, 3, 4) to (24,)"
    }
