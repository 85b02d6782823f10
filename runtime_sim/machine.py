"""The machine: executes command streams on memories that belong to one call."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime_sim import plan as planning
from runtime_sim.isa.codec import Words, as_words
from runtime_sim.merge.program import default_threads
from runtime_sim.npu import NpuConfig, validate
from runtime_sim.numerics import NumericsError
from runtime_sim.plan import Plan, Planned
from runtime_sim.views import CONSTANTS, DRAM, REGIONS, IllegalCommand, memory_name

Regions = Mapping[int, NDArray[np.uint8]]
Trace = Callable[[Planned, Sequence[Any]], None]
"""Called after each command with the command and all memories: SPM, ACC, region 0, region 1, ..."""

Execution = Callable[..., None]
"""Executes a prepared stream: called with the regions, and optionally a trace."""

PLAN_CACHE_ENTRIES = 64
_NOTHING = np.zeros(0, np.uint8)


class PlanCache:
    """A bounded, thread-safe cache of plans, keyed by the stream's hash and the configuration's."""

    def __init__(self, entries: int = PLAN_CACHE_ENTRIES) -> None:
        """Keep at most `entries` plans, dropping the least recently used."""
        self._entries = entries
        self._plans: OrderedDict[tuple[bytes, str], Plan] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, words: Words, config: NpuConfig, digest: str) -> Plan:
        """Return the plan of a stream, building it on first use; raises as `plan.build`."""
        key = (hashlib.sha256(np.ascontiguousarray(words).data).digest(), digest)
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        plan = planning.build(words, config)
        with self._lock:
            self._plans[key] = plan
            self._plans.move_to_end(key)
            while len(self._plans) > self._entries:
                self._plans.popitem(last=False)
        return plan


_SHARED_CACHE = PlanCache()


class Machine:
    """One NPU of a given configuration. Holds no memory contents: threads may share it."""

    def __init__(self, config: NpuConfig, *, cache: PlanCache | None = None) -> None:
        """Make a machine; raises ConfigError for an illegal configuration."""
        self.config = validate(config)
        self._digest = config.digest()
        self._cache = _SHARED_CACHE if cache is None else cache

    def plan(self, stream: bytes | Words) -> Plan:
        """Return the stream's plan, from the cache if it was built before."""
        return self._cache.get(as_words(stream), self.config, self._digest)

    def execute(
        self,
        stream: bytes | Words,
        regions: Regions,
        *,
        trace: Trace | None = None,
        merge: bool = True,
        threads: int | None = None,
    ) -> None:
        """Execute a stream, writing results into `regions` in place.

        `regions` maps region numbers to contiguous 1-D uint8 arrays. SPM and ACC start at zero.
        Streams are causal, so stream order is a legal order. With `merge`, commands are merged
        into whole-layer operations where that is proven to leave the regions the same, and run on
        `threads` threads (default: VNPU_THREADS, else the cores allowed); what no STORE saves is
        not computed. Without it, or with a `trace`, every command runs by itself.

        Raises DecodingError or IllegalCommand, naming the command, before anything is written.
        """
        self.prepare(stream, regions, merge=merge and trace is None, threads=threads)(
            regions, trace
        )

    def prepare(
        self,
        stream: bytes | Words,
        regions: Regions,
        *,
        merge: bool = True,
        threads: int | None = None,
    ) -> Execution:
        """Return a function of regions that executes a stream, for many calls alike.

        Region 0 must hold the same bytes in every call. Raises as `execute`, and so does the
        function.
        """
        plan = self.plan(stream)
        check_regions(plan, regions)
        constants = b""
        if merge:
            constants = hashlib.sha256(regions.get(CONSTANTS, _NOTHING).data).digest()
        count = default_threads() if threads is None else max(threads, 1)

        def execute(regions: Regions, trace: Trace | None = None) -> None:
            check_regions(plan, regions)
            memories = self.memories(regions)
            if not merge or trace is not None or _overlapping(plan, regions):
                run(plan, memories, trace)
                return
            try:
                plan.program.run(
                    memories, constants, lambda i: _run_command(plan.commands[i], memories), count
                )
            except NumericsError:
                # A layer does not know which command's record is bad: that command does.
                run(plan, self.memories(regions))
                raise

        return execute

    def memories(self, regions: Regions) -> list[Any]:
        """Return the buffers of a call, indexed by memory number: SPM, ACC, then the regions."""
        buffers: list[Any] = [None] * (DRAM + REGIONS)
        buffers[0] = np.zeros(self.config.spm_bytes, np.uint8)
        buffers[1] = np.zeros(self.config.acc_elements, np.int32)
        for region, data in regions.items():
            buffers[DRAM + region] = data
        return buffers


def check_regions(plan: Plan, regions: Regions) -> None:
    """Raise IllegalCommand, naming the command, if a plan reaches outside the regions given."""
    if all(
        region in regions and low >= 0 and high <= regions[region].nbytes
        for region, (low, high) in plan.reach.items()
    ):
        return
    for command, view in plan.dram:
        data = regions.get(view.memory - DRAM)
        if data is None:
            raise IllegalCommand(
                f"{command.title} uses {memory_name(view.memory)}, which is not bound",
                rule=planning.IN_BOUNDS,
                command=command.index,
                limit="regions " + ", ".join(map(str, sorted(regions))),
            )
        planning.check_extent(command, view, data.nbytes)


def _overlapping(plan: Plan, regions: Regions) -> bool:
    """Tell whether two regions that the plan uses share memory of this process."""
    spans = sorted(
        (data.__array_interface__["data"][0], data.nbytes)
        for region, data in regions.items()
        if region in plan.reach and data.nbytes
    )
    return any(first + size > second for (first, size), (second, _) in zip(spans, spans[1:]))


def run(plan: Plan, memories: Sequence[Any], trace: Trace | None = None) -> None:
    """Run every command of a plan on `memories`, in stream order; see `Machine.memories`.

    Raises IllegalCommand, naming the command, for a parameter record that no mode can use.
    """
    for command in plan.commands:
        _run_command(command, memories)
        if trace is not None:
            trace(command, memories)


def _run_command(command: Planned, memories: Sequence[Any]) -> None:
    step = command.step
    if step is None:
        return
    try:
        value = step.compute(*[operand.read(memories) for operand in step.reads])
    except NumericsError as error:
        raise _bad_record(command, error) from error
    step.write.write(memories, value)


def _bad_record(command: Planned, error: NumericsError) -> IllegalCommand:
    return IllegalCommand(
        f"{command.title}: {error.what}",
        rule="records_legal",
        command=command.index,
        seen=error.seen,
        limit=error.limit,
    )
