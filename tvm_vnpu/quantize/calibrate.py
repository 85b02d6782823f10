"""Min-max calibration: run the float module and record the range of every chosen tensor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relax

from runtime_sim.errors import VnpuError
from tvm_vnpu.quantize.annotate import annotated_tensors
from tvm_vnpu.quantize.batches import checked_batches, split_batch
from tvm_vnpu.relax.names import call_name, input_names
from tvm_vnpu.relax.rewrite import Rewriter, bindings_of

RANGES_ATTR = "vnpu.ranges"

Batch = Mapping[str, np.ndarray]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Write `vnpu.ranges`: JSON of variable name -> [min, max] over all calibration batches.

    Batches stream: each is a dict from the model's own input names to arrays. `progress` is called
    with the number of batches done. Raises VnpuError for an empty, ill-named, ill-shaped or
    non-finite set.
    """

    batches: Iterable[Batch]
    progress: Progress | None = None
    name: str = "calibrate-min-max"

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module with the attribute on `main`."""
        batches = checked_batches(mod, self.batches)
        tensors = list(annotated_tensors(mod["main"]))
        ranges = self._measure(mod, tensors, batches)
        return with_ranges(mod, ranges)

    def _measure(
        self, mod: tvm.IRModule, tensors: list[str], batches: Iterator[Batch]
    ) -> dict[str, list[float]]:
        run = _runner(mod, tensors)
        ranges: dict[str, list[float]] = {}
        for done, batch in enumerate(batches, start=1):
            for part in split_batch(mod, batch):
                for name, value in zip(tensors, run(part)):
                    _widen(mod, ranges, name, value)
            if self.progress is not None:
                self.progress(done)
        return ranges


def with_ranges(mod: tvm.IRModule, ranges: Mapping[str, list[float]]) -> tvm.IRModule:
    """Return the module with `vnpu.ranges` set."""
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs)
    result["main"] = mod["main"].with_attr(RANGES_ATTR, json.dumps(dict(ranges)))
    return result


def _widen(mod: tvm.IRModule, ranges: dict[str, list[float]], name: str, value: np.ndarray) -> None:
    low, high = float(value.min()), float(value.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise VnpuError(
            f"the float model overflows on the calibration set at {_node(mod, name)!r}",
            seen=f"range {low} to {high}",
            limit="finite values",
            fix="check the scale of the calibration data",
        )
    old = ranges.setdefault(name, [low, high])
    ranges[name] = [min(old[0], low), max(old[1], high)]


def _node(mod: tvm.IRModule, variable: str) -> str:
    for binding in bindings_of(mod["main"]):
        if binding.var.name == variable:
            return call_name(binding.value) or variable
    return variable


class _AllTensors(Rewriter):
    """Rebuilds a function so that it returns the tensors named."""

    def __init__(self, function: relax.Function, tensors: list[str]) -> None:
        super().__init__(function)
        by_name = {str(var.name): var for var in (*function.params, *self.definitions)}
        self.wanted = relax.Tuple([by_name[name] for name in tensors])
        body = relax.SeqExpr(function.body.blocks, self.wanted)
        self.result = body.body

    def run(self) -> relax.Function:
        with self.builder.function("main", list(self.function.params)):
            with self.builder.dataflow():
                for binding in bindings_of(self.function):
                    self._rebuild(binding)
                output = self.builder.emit_output(self.substitute(self.result))
            self.builder.emit_func_output(output)
        return self.builder.get()["main"]


def _runner(mod: tvm.IRModule, tensors: list[str]) -> Callable[[Batch], list[np.ndarray]]:
    """Return a function from one batch to the values of the tensors, on the CPU."""
    functions = dict(mod.functions.items())
    functions[mod.get_global_var("main")] = _AllTensors(mod["main"], tensors).run()
    executable = tvm.compile(tvm.IRModule(functions), target="llvm")
    machine = relax.VirtualMachine(executable, tvm.cpu())
    names = input_names(mod)

    def run(batch: Batch) -> list[np.ndarray]:
        result = machine["main"](*(tvm.runtime.tensor(batch[name]) for name in names))
        return [np.from_dlpack(tensor) for tensor in result]

    return run
