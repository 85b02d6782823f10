"""The quantiser: a list of passes from a float Relax module to one with explicit Q/DQ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np
import tvm

from runtime_sim.errors import VnpuError
from runtime_sim.npu import NpuConfig, load
from tvm_vnpu.quantize.annotate import Annotate
from tvm_vnpu.quantize.calibrate import Calibrate
from tvm_vnpu.quantize.fold_batch_norm import FoldBatchNorm
from tvm_vnpu.quantize.insert_qdq import InsertQDQ
from tvm_vnpu.quantize.placeholder import PlaceholderRanges
from tvm_vnpu.quantize.recipe import Recipe
from tvm_vnpu.relax.names import profile
from tvm_vnpu.relax.rewrite import is_straight_line
from tvm_vnpu.relax.weight_transpose import FoldWeightTranspose

Batch = Mapping[str, np.ndarray]


class Pass(Protocol):
    """A named step from module to module."""

    @property
    def name(self) -> str:
        """Return the name the step is listed by."""

    def apply(self, mod: tvm.IRModule) -> tvm.IRModule:
        """Return the module after the step; the argument is left alone."""


def quantize(
    mod: tvm.IRModule,
    calibration_batches: Iterable[Batch],
    *,
    recipe: Recipe | None = None,
    npu: NpuConfig | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> tvm.IRModule:
    """Quantise a float module to int8 by min-max calibration; the result has explicit Q/DQ.

    `calibration_batches`: dicts from the model's own input names to arrays; a leading axis longer
    than the model's is split. `npu`, a preset, a file or a configuration, sets the recipe.
    `progress` gets the number of batches done. Raises VnpuError for a module that is quantised
    already and for a bad calibration set.
    """
    ranges = Calibrate(calibration_batches, progress)
    return _run(mod, ranges, recipe or _default_recipe(npu))


def quantize_uncalibrated(
    mod: tvm.IRModule, *, recipe: Recipe | None = None, npu: NpuConfig | str | None = None
) -> tvm.IRModule:
    """Quantise with placeholder ranges: right shapes and cycles, meaningless values.

    Marks the module with the function attribute `vnpu.calibrated` = 0.
    """
    result = _run(mod, PlaceholderRanges(), recipe or _default_recipe(npu))
    result["main"] = result["main"].with_attr("vnpu.calibrated", 0)
    return result


def _default_recipe(npu: NpuConfig | str | None) -> Recipe:
    return Recipe() if npu is None else Recipe.for_npu(load(npu))


def _run(mod: tvm.IRModule, ranges: Pass, recipe: Recipe) -> tvm.IRModule:
    _check_float(mod)
    pipeline: list[Pass] = [
        FoldWeightTranspose(),
        FoldBatchNorm(),
        Annotate(),
        ranges,
        InsertQDQ(recipe),
    ]
    for step in pipeline:
        mod = step.apply(mod)
    return mod


def _check_float(mod: tvm.IRModule) -> None:
    if profile(mod) is not None:
        raise VnpuError(
            "the model is quantised already",
            seen=f"profile {profile(mod)}",
            limit="a float model",
            fix="compile it as it is, without calibration data",
        )
    if not is_straight_line(mod["main"]):
        raise VnpuError(
            "the model has control flow",
            limit="straight-line models can be quantised",
            fix="export the model with its conditions and loops resolved",
        )
