"""Adaptive pools and means over rows and columns, against TVM's CPU build."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay.graphs import image, module, requantize
from tests.relay.test_moves import check, composites, reasons
from tvm_vnpu.relay.ops.windows import runs

SHAPES = {"NCHW": (1, 5, 8, 11), "NHWC": (1, 8, 11, 5)}


def _cells(size: int, out: int) -> list[tuple[int, int]]:
    return [
        (run.begin + index * run.stride, run.begin + index * run.stride + run.size)
        for run in runs(size, out)
        for index in range(run.out)
    ]


def test_runs_are_the_cells_of_an_adaptive_pool() -> None:
    for size in range(1, 40):
        for out in range(1, size + 1):
            starts = [index * size // out for index in range(out)]
            ends = [-(-(index + 1) * size // out) for index in range(out)]
            assert _cells(size, out) == list(zip(starts, ends, strict=True))
            assert size % out or len(runs(size, out)) == 1


@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("out", [(1, 1), (2, 11), (3, 5), (4, 11)])
def test_adaptive_pools_of_even_and_uneven_cells(layout: str, out: tuple[int, int]) -> None:
    x = image(*SHAPES[layout])
    check(relay.nn.adaptive_max_pool2d(x, out, layout=layout), [["max_pool2d"]])
    average = relay.nn.adaptive_avg_pool2d(relay.cast(x, "int32"), out, layout=layout)
    check(relay.cast(average, "int8"), [["avg_pool2d"]])
    check(requantize(average, 0.5, 3, 0.7, -2), [["avg_pool2d"]])


def test_uneven_cells_of_rescaled_elements_are_refused() -> None:
    wide = requantize(image(1, 5, 8, 11), 0.5, 3, 0.3, -2, dtype="int32")
    body = requantize(relay.nn.adaptive_avg_pool2d(wide, (3, 5)), 0.3, -2, 0.3, 4)
    words = "an average of part of an image must not rescale its elements"
    assert any(reason.startswith(words) for reason in reasons(module(body)))
    check(body)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [(2, 3), (1, 2), (-1, -2)])
def test_means_over_rows_and_columns(axes: tuple[int, int], keepdims: bool) -> None:
    wide = relay.cast(image(1, 6, 7, 5), "int32")
    body = relay.cast(relay.mean(wide, axes, keepdims=keepdims), "int8")
    assert composites(module(body)) == [["avg_pool2d"]]
    check(body)


def test_means_over_other_axes_are_refused() -> None:
    def reason(*axes: int) -> str:
        wide = relay.cast(image(1, 6, 7, 5), "int32")
        return max(reasons(module(relay.cast(relay.mean(wide, axes), "int8"))), key=len)

    assert reason(1, 3) == "a mean must be over rows and columns: seen axes [1, 3]"
    assert reason(0, 2) == "the axis must not be the batch: seen axis 0"
