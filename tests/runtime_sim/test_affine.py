"""Windows on copies: where they lie in the original, on random boxes, by enumeration."""

from __future__ import annotations

from random import Random

import numpy as np

from runtime_sim.merge.affine import nested_dims, through


def addresses(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Return the address of every element."""
    grid = np.full(shape, start)
    for axis, stride in enumerate(strides):
        steps = np.arange(shape[axis]) * stride
        grid += steps.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return grid


def test_windows_on_a_copy() -> None:
    random, found = Random(0), 0
    for _ in range(4000):
        counts = tuple(random.randrange(1, 5) for _ in range(3))
        inner, span = [], 1
        for count in counts[::-1]:
            inner.append(span + random.choice((0, 0, 1)))
            span = inner[-1] * count
        near = tuple(inner[::-1])
        far = tuple(random.choice((near[a], random.randrange(1, 200))) for a in range(3))
        dims = nested_dims(counts, near, far)
        assert dims is not None
        shape = tuple(random.randrange(1, 4) for _ in range(2))
        strides = tuple(random.choice((*near, random.randrange(1, 30))) for _ in range(2))
        start = random.randrange(max(span, 1))
        image = through(start, shape, strides, 1, dims)
        copied = dict(zip(addresses(0, counts, near).flat, addresses(0, counts, far).flat))
        window = addresses(start, shape, strides)
        if image is None:
            continue
        found += 1
        expected = [copied[address] for address in window.flat]
        assert addresses(image[0], shape, image[1]).reshape(-1).tolist() == expected
    assert found > 300


def test_overlapping_boxes_are_refused() -> None:
    assert nested_dims((3, 4), (3, 1), (9, 1)) is None


def test_elements_stay_whole() -> None:
    dims = nested_dims((4, 4), (4, 1), (8, 1))
    assert dims is not None
    assert through(4, (2,), (4,), 4, dims) == (8, (8,))
    assert through(2, (2,), (4,), 4, dims) is None
