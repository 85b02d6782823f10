"""A merged plan: layers and left-over commands, bound to constants and run on several threads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from runtime_sim.merge import blas
from runtime_sim.merge.bound import BoundLayer, dynamic
from runtime_sim.merge.layers import Layer
from runtime_sim.merge.schedule import Action
from runtime_sim.npu import NpuConfig
from runtime_sim.views import CONSTANTS, DRAM

THREADS_VARIABLE = "VNPU_THREADS"
BOUND_LIMIT = 256 << 20
"""Bytes of converted weights that a program keeps; layers beyond it convert theirs every call."""
_BOUND_ENTRIES = 2
_SERIAL_ELEMENTS = 1 << 15

RunCommand = Callable[[int], None]
"""Runs the command at a position of the stream as it stands."""


def default_threads() -> int:
    """Return the number of threads of a run: VNPU_THREADS, else that of the cores allowed."""
    text = os.environ.get(THREADS_VARIABLE, "")
    if text.isdigit() and int(text) > 0:
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Program:
    """The actions that leave DRAM as the stream would; threads may share it."""

    def __init__(self, actions: Sequence[Action], config: NpuConfig) -> None:
        """Keep the actions; nothing is bound yet."""
        self.actions, self._config = tuple(actions), config
        self._bound: OrderedDict[bytes, dict[int, BoundLayer]] = OrderedDict()
        self._lock = threading.Lock()

    def run(
        self, memories: Sequence[Any], constants: bytes, command: RunCommand, threads: int
    ) -> None:
        """Run all actions; `constants` is a hash of region 0's contents, `threads` at least 1."""
        layers = self.bind(constants, memories)
        with blas.one_thread():
            for number, action in enumerate(self.actions):
                if not isinstance(action, Layer):
                    command(action)
                    continue
                layer = layers.get(number) or BoundLayer(action, memories, self._config)
                _run(layer, memories, threads if _worthwhile(action) else 1)

    def bind(self, constants: bytes, memories: Sequence[Any]) -> dict[int, BoundLayer]:
        """Return the layers bound to these constants, binding them on first use."""
        with self._lock:
            known = self._bound.get(constants)
            if known is not None:
                self._bound.move_to_end(constants)
                return known
        layers, size = {}, 0
        for number, action in enumerate(self.actions):
            if isinstance(action, Layer) and not dynamic(action, DRAM + CONSTANTS):
                layer = BoundLayer(action, memories, self._config)
                size += layer.nbytes
                if size <= BOUND_LIMIT:
                    layers[number] = layer
                else:
                    size -= layer.nbytes
        with self._lock:
            self._bound[constants] = layers
            while len(self._bound) > _BOUND_ENTRIES:
                self._bound.popitem(last=False)
        return layers


def _worthwhile(layer: Layer) -> bool:
    height, width, channels = layer.shape
    return height * width * channels >= _SERIAL_ELEMENTS


def _run(layer: BoundLayer, memories: Sequence[Any], threads: int) -> None:
    """Run a layer's blocks, shared out among threads; they write disjoint rows."""
    blocks = iter(layer.blocks)
    workers = min(threads, len(layer.blocks)) - 1
    if workers < 1:
        for rows in blocks:
            layer.run(memories, rows)
        return
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                rows = next(blocks, None)
            if rows is None:
                return
            layer.run(memories, rows)

    helpers: list[Future[None]] = [_pool(threads - 1).submit(work) for _ in range(workers)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():
                helper.result()


@lru_cache(maxsize=4)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="vnpu")
