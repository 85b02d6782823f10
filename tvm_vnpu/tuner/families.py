"""Families of schedules: those that differ only in how far they overlap, bounded together.

They differ in `space.GROWING`: larger values of these knobs can only lower a bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from codegen.bounds import bounds_of_columns, engine_bounds
from codegen.ops.base import Operator
from codegen.schedule import Schedule
from codegen.space import GROWING, Knob
from runtime_sim.npu import NpuConfig

Columns = Mapping[str, NDArray[np.generic]]

_SIZES = ("tile_h", "tile_w", "first_tile_h", "tile_oc", "tile_ic", "micro_kernel")
"""Knobs that decide alone how long the engines compute."""
_ROWS = 20_000
"""How many families are bounded at once."""


class Families:
    """The families of the schedules of an operator's kernel that some knobs describe."""

    def __init__(self, operator: Operator, npu: NpuConfig, knobs: Sequence[Knob]) -> None:
        """Take the operator's knobs, or fewer values of them."""
        self._operator, self._npu = operator, npu
        self._within = [knob for knob in knobs if knob.name in GROWING]
        self._sizes = [knob for knob in knobs if knob.name in _SIZES]
        self._others = [knob for knob in knobs if knob.name not in (*GROWING, *_SIZES)]

    def below(self, cycles: int) -> tuple[list[Schedule], NDArray[np.float64]]:
        """Return the families whose bound is below `cycles`, lowest first, and these bounds.

        A family stands for itself by its tightest schedule.
        """
        found: list[Schedule] = []
        bounds: list[float] = []
        for columns in self._columns(cycles):
            loosest = {knob.name: knob.values[-1] for knob in self._within}
            bound = bounds_of_columns(self._operator, _with(columns, loosest), self._npu)
            for row in np.flatnonzero(bound < cycles).tolist():
                family = self._family({name: c[row].item() for name, c in columns.items()})
                if family is not None:
                    found.append(family)
                    bounds.append(float(bound[row]))
        order = np.argsort(bounds, kind="stable")
        return [found[i] for i in order], np.array(bounds)[order]

    def members(self, family: Schedule) -> Iterator[Schedule]:
        """Yield the schedules of a family, those that overlap most first."""
        for values in product(*(knob.values[::-1] for knob in self._within)):
            names = {knob.name: value for knob, value in zip(self._within, values, strict=True)}
            yield replace(family, **names)  # type: ignore[arg-type]

    def _columns(self, cycles: int) -> Iterator[Columns]:
        """Yield the values of all knobs that tell families apart, in blocks.

        Those whose tile sizes alone take the engines `cycles` or more are left out.
        """
        sizes = _product(self._sizes)
        plain = _with(sizes, {knob.name: knob.values[0] for knob in self._others + self._within})
        kept = np.flatnonzero(engine_bounds(self._operator, plain, self._npu) < cycles)
        others = _product(self._others)
        count = prod(len(knob.values) for knob in self._others)
        step = max(1, _ROWS // count)
        for start in range(0, len(kept), step):
            rows = kept[start : start + step]
            columns = {name: np.repeat(column[rows], count) for name, column in sizes.items()}
            yield columns | {name: np.tile(c, len(rows)) for name, c in others.items()}

    def _family(self, values: Mapping[str, int | str]) -> Schedule | None:
        """Return the tightest schedule of a family; None if it is not legal or not canonical."""
        least = {knob.name: knob.values[0] for knob in self._within}
        schedule = Schedule(**values, **least)  # type: ignore[arg-type]
        family = self._operator.canonical(schedule, self._npu)
        if any(getattr(family, name) != value for name, value in values.items()):
            return None
        return family if self._operator.is_legal(family, self._npu) else None


def _product(knobs: Sequence[Knob]) -> dict[str, NDArray[np.generic]]:
    """Return all combinations of knobs' values, an array for each."""
    grids = np.meshgrid(*(np.arange(len(knob.values)) for knob in knobs), indexing="ij")
    return {
        knob.name: np.array(knob.values)[grid.reshape(-1)]
        for knob, grid in zip(knobs, grids, strict=True)
    }


def _with(columns: Columns, values: Mapping[str, int | str]) -> Columns:
    """Return columns with the other fields of Schedule: `values`, else its defaults."""
    count = len(next(iter(columns.values())))
    fields = {**Schedule().to_dict(), **values}
    return {name: np.full(count, value) for name, value in fields.items()} | dict(columns)
