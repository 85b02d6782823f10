"""Walk a stream once in stream order and check every rule at every command."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from runtime_sim.errors import CommandError
from runtime_sim.isa.codec import Words, decode
from runtime_sim.isa.fields import Queue
from runtime_sim.npu import NpuConfig
from runtime_sim.plan import IN_BOUNDS, READ_ONLY, Planned, check_extent, plan_command
from runtime_sim.step import Step
from runtime_sim.verify.accumulator import AccumulatorBounds
from runtime_sim.verify.errors import VerifyError, fault
from runtime_sim.verify.order import Order
from runtime_sim.verify.shadow import Shadow, box, overlap_free, shares_bytes
from runtime_sim.views import ACC, ARENA, DRAM, INT32, SPM, Operand, View, memory_name

STREAM_RULES: Mapping[str, str] = MappingProxyType(
    {
        "fields_legal": "Every opcode is known, no reserved bit is set, every field is in range "
        "and every operand rule holds.",
        "in_bounds": "Every byte a command touches lies inside SPM, ACC or the region it names.",
        "read_only": "No STORE writes the constants or an input.",
        "reads_written_bytes": "No command reads a byte of SPM, ACC, the arena or an output that "
        "was never written.",
        "accesses_ordered": "A write and another access to the same byte by a different queue are "
        "ordered by semaphores or a fence.",
        "writes_disjoint": "No two elements of a written operand share a byte.",
        "in_place_exact": "A command's result shares bytes with an operand only where each element "
        "replaces the one it was computed from.",
        "causal": "The k-th wait on a semaphore stands after its k-th post, so that no queue depth "
        "can deadlock.",
        "one_queue_each": "At any time one queue posts a semaphore and one queue waits for it.",
        "counter_fits": "No semaphore exceeds 255, however far a queue runs ahead.",
        "balanced": "Every semaphore is zero at the end.",
        "ends_once": "END stands once, as the last command.",
        "accumulator_never_overflows": "No accumulator leaves the range of int32 for any operand "
        "values.",
        "outputs_written": "Every byte of every output is written.",
    }
)
"""Rule -> what it demands, for the documentation."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the verifier learnt. Peaks are the highest byte used plus one, per memory.

    `commands` counts each queue's commands by name; `semaphore_peaks` the highest count each
    semaphore used can reach.
    """

    commands: Mapping[str, int]
    peaks: Mapping[str, int]
    semaphore_peaks: Mapping[int, int]


class Verifier:
    """The verifier's state while it walks one stream."""

    def __init__(
        self,
        config: NpuConfig,
        region_sizes: Mapping[int, int],
        outputs: Collection[int] = (),
        *,
        written: bool = False,
    ) -> None:
        """Start before the first command; `written` presumes SPM and ACC hold defined values."""
        vector_and_store = (Queue.MX, Queue.VX, Queue.ST)
        self._config, self._sizes, self._outputs = config, region_sizes, tuple(outputs)
        self.order = Order(config.queue_depth)
        self.bounds = AccumulatorBounds(config.acc_elements)
        self.shadows = {
            SPM: Shadow(config.spm_bytes, 1, (Queue.LD, Queue.VX), vector_and_store, written),
            ACC: Shadow(
                config.acc_elements * INT32.itemsize,
                INT32.itemsize,
                (Queue.MX,),
                (Queue.MX, Queue.VX),
                written,
            ),
        }
        for region in (ARENA, *self._outputs):
            size = region_sizes.get(region, 0)
            self.shadows[DRAM + region] = Shadow(size, 1, (Queue.ST,), (Queue.LD,))

    def enter(self, command: Planned) -> None:
        """Check one command against every rule."""
        clock = self.order.enter(command)
        step = command.step
        if step is None:
            return
        position = self.order.counts[command.row.queue]
        self._operands(command, step)
        for operand in step.reads:
            for view in operand.views:
                if view.memory in self.shadows:
                    self.shadows[view.memory].read(command, view, clock, position)
        for view in step.write.views:
            self.shadows[view.memory].write(command, view, clock, position)
        self.bounds.enter(command)

    def finish(self) -> Report:
        """Check the rules about the end of the stream and return the report."""
        self.order.finish()
        for region in self._outputs:
            written = self.shadows[DRAM + region].written
            if not written.all():
                raise VerifyError(
                    f"output region {region} is not written completely",
                    rule="outputs_written",
                    seen=f"byte 0x{int(written.argmin()):x} never written",
                    limit=f"{written.size} bytes",
                )
        names = (Queue.LD, Queue.MX, Queue.VX, Queue.ST)
        return Report(
            commands={queue.name: self.order.counts[queue] for queue in names},
            peaks={memory_name(m): shadow.peak for m, shadow in self.shadows.items()},
            semaphore_peaks={
                bit: semaphore.peak
                for bit, semaphore in enumerate(self.order.semaphores)
                if semaphore.posts
            },
        )

    def _operands(self, command: Planned, step: Step) -> None:
        for operand in (*step.reads, step.write):
            for view in operand.views:
                if view.memory >= DRAM:
                    self._region(command, view)
        if any(view.memory not in self.shadows for view in step.write.views):
            name = memory_name(step.write.views[0].memory)
            raise fault(READ_ONLY, command, f"writes {name}, which is read-only")
        if not overlap_free(step.write.views):
            raise fault("writes_disjoint", command, "writes a byte more than once")
        for operand in step.reads:
            if not _in_place(command, operand, step.write) and any(
                shares_bytes(a, b) for a in operand.views for b in step.write.views
            ):
                raise fault("in_place_exact", command, "overwrites an operand, shifted or reshaped")

    def _region(self, command: Planned, view: View) -> None:
        region = view.memory - DRAM
        if region not in self._sizes:
            name, bound = memory_name(view.memory), ", ".join(map(str, sorted(self._sizes)))
            raise fault(IN_BOUNDS, command, f"uses {name}, which is not bound", limit=bound)
        check_extent(command, view, self._sizes[region])


def _in_place(command: Planned, operand: Operand, result: Operand) -> bool:
    """Tell whether each element of the result depends on the operand's same element alone."""
    taps = command.fields.get("kh", 1) * command.fields.get("kw", 1)
    if taps > 1 and operand.views[0].memory == SPM:
        return False
    return [(view.shape, box(view, 1)) for view in operand.views] == [
        (view.shape, box(view, 1)) for view in result.views
    ]


def verify(
    stream: bytes | Words,
    config: NpuConfig,
    region_sizes: Mapping[int, int],
    outputs: Collection[int] = (),
) -> Report:
    """Prove a stream safe, or raise VerifyError with the rule and the command that breaks it.

    `region_sizes` maps region numbers to bytes: 0 constants, 1 arena, from 2 on the arguments.
    `outputs` are the regions that the stream must write; all other arguments are inputs.
    """
    try:
        commands = [plan_command(f, i, config) for i, f in enumerate(decode(stream))]
        verifier = Verifier(config, region_sizes, outputs)
        for command in commands:
            verifier.enter(command)
        return verifier.finish()
    except VerifyError:
        raise
    except CommandError as error:
        raise VerifyError(
            error.what,
            rule=error.rule,
            command=error.command,
            seen=error.seen,
            limit=error.limit,
            fix=error.fix,
        ) from error
