"""Draw how tuners got on: speed over the default schedules against trials, as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from runtime_sim.errors import VnpuError
from tvm_vnpu.tuner.records import TRIAL, Record
from tvm_vnpu.tuner.task import TaskKey

Curve = list[float]
"""By trial, from 0: how many times as fast as the default the best so far is."""

WIDTH, HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 120, 40, 50
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
_TICKS = 5


def curves(records: Sequence[Record]) -> dict[str, Curve]:
    """Return the geometric mean over tasks and seeds of each tuner's curve.

    A task that stopped early keeps its best. Raises VnpuError for a log without trials.
    """
    runs: dict[tuple[str, int, TaskKey], dict[int, Record]] = {}
    for record in records:
        if record.event == TRIAL:
            runs.setdefault((record.tuner, record.seed, record.key), {})[record.trial] = record
    by_tuner: dict[str, list[Curve]] = {}
    for (tuner, _, _), trials in runs.items():
        default = trials.get(0)
        if default is not None and default.cycles is not None and len(trials) > 1:
            by_tuner.setdefault(tuner, []).append(_curve(default.cycles, trials))
    if not by_tuner:
        raise VnpuError("the tuning log has no trials to plot", fix="tune into it first")
    return {tuner: _mean(found) for tuner, found in by_tuner.items()}


def _curve(default: int, trials: Mapping[int, Record]) -> Curve:
    curve, best = [1.0], math.inf
    for trial in range(1, max(trials) + 1):
        record = trials.get(trial)
        if record is not None and record.cycles is not None:
            best = min(best, record.cycles)
        curve.append(default / best)
    return curve


def _mean(found: Sequence[Curve]) -> Curve:
    longest = max(map(len, found))
    padded = [[*curve, *[curve[-1]] * (longest - len(curve))] for curve in found]
    columns = ([value for value in column if value > 0] for column in zip(*padded))
    return [
        math.exp(sum(map(math.log, column)) / len(column)) if column else math.nan
        for column in columns
    ]


def svg(records: Sequence[Record], title: str) -> str:
    """Return a line chart of a log. Raises VnpuError as `curves`."""
    found = curves(records)
    values = [value for curve in found.values() for value in curve if math.isfinite(value)]
    low, high = min(*values, 1.0), max(*values, 1.0)
    margin = (high - low) * 0.05 or 0.05
    frame = _Frame(max(len(curve) for curve in found.values()) - 1, low - margin, high + margin)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="14">{escape(_printable(title))}</text>',
        *frame.axes(),
    ]
    for number, (tuner, curve) in enumerate(found.items()):
        parts += frame.line(tuner, curve, _COLOURS[number % len(_COLOURS)], number)
    return "\n".join([*parts, "</svg>", ""])


def _printable(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return "".join(character if character.isprintable() else "?" for character in text)


class _Frame:
    """Maps trials and speeds to the picture."""

    def __init__(self, trials: int, low: float, high: float) -> None:
        self._trials, self._low, self._high = max(trials, 1), low, high

    def x(self, trial: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * trial / self._trials

    def y(self, speed: float) -> float:
        share = (speed - self._low) / (self._high - self._low)
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share

    def axes(self) -> list[str]:
        """Return grid, ticks and labels."""
        left, right = self.x(0), self.x(self._trials)
        top, bottom = self.y(self._high), self.y(self._low)
        parts = []
        for tick in range(_TICKS + 1):
            speed = self._low + (self._high - self._low) * tick / _TICKS
            trial = round(self._trials * tick / _TICKS)
            parts += [
                f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{self.y(speed):.1f}" '
                f'y2="{self.y(speed):.1f}" stroke="#ddd"/>',
                f'<text x="{left - 8:.1f}" y="{self.y(speed) + 4:.1f}" text-anchor="end">'
                f"{speed:.3f}</text>",
                f'<text x="{self.x(trial):.1f}" y="{bottom + 18:.1f}" text-anchor="middle">'
                f"{trial}</text>",
            ]
        middle = (top + bottom) / 2
        return [
            *parts,
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
            f'height="{bottom - top:.1f}" fill="none" stroke="#888"/>',
            f'<text x="{(left + right) / 2:.1f}" y="{HEIGHT - 10}" text-anchor="middle">'
            "trials a task</text>",
            f'<text x="16" y="{middle:.1f}" text-anchor="middle" '
            f'transform="rotate(-90 16 {middle:.1f})">times as fast as the default</text>',
        ]

    def line(self, name: str, curve: Curve, colour: str, number: int) -> list[str]:
        """Return a curve and its entry in the legend."""
        points = " ".join(
            f"{self.x(trial):.1f},{self.y(speed):.1f}"
            for trial, speed in enumerate(curve)
            if math.isfinite(speed)
        )
        x, y = self.x(self._trials) + 12, _TOP + 16 + 18 * number
        return [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<line x1="{x:.1f}" x2="{x + 20:.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="2"/>',
            f'<text x="{x + 26:.1f}" y="{y + 4}">{escape(name)}</text>',
        ]
