"""A profile as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_vnpu.report.profile import EngineProfile, LayerProfile, Profile
from tvm_vnpu.report.table import Cell, html_table, percent, size, text_table

LAYER_HEADERS = (
    "layer", "operator", "cycles", "share", "MACs", "array use", "at least", "bound",
)  # fmt: skip
_NOT_CALIBRATED = "NOT CALIBRATED: placeholder ranges; cycles hold, values do not."
_CAUSES_SHOWN = 3


def layer_rows(layers: Sequence[LayerProfile]) -> list[list[Cell]]:
    """Return one table row per layer, in the order of LAYER_HEADERS."""
    return [
        [
            short_name(layer.nodes) or layer.name,
            layer.operator,
            layer.cycles,
            percent(layer.share),
            layer.macs,
            percent(layer.utilization),
            layer.lower_bound_cycles,
            layer.bound,
        ]
        for layer in layers
    ]


def short_name(nodes: Sequence[str]) -> str:
    """Return node names in one text; what a name shares with the one before is left out.

    "/a/b/Conv", "/a/b/Clip" becomes "/a/b/Conv + Clip".
    """
    parts: list[str] = []
    previous: list[str] = []
    for node in nodes:
        path = node.split("/")
        shared = 0
        while shared < min(len(path), len(previous)) - 1 and path[shared] == previous[shared]:
            shared += 1
        parts.append("/".join(path[shared:]))
        previous = path
    return " + ".join(parts)


def total_rows(profile: Profile) -> list[list[Cell]]:
    """Return the totals as rows of name and value."""
    on_npu = profile.operators - profile.cpu_operators
    rows: list[list[Cell]] = [
        ["cycles", f"{profile.cycles:,} (at least {profile.lower_bound_cycles:,})"],
        ["time", f"{profile.time_ms:,.4g} ms at {profile.clock_mhz:,.4g} MHz"],
        ["throughput", f"{profile.inferences_per_second:,.0f} inferences/s"],
        ["MACs", f"{profile.macs:,} ({percent(profile.utilization)} of the array)"],
    ]
    for memory in profile.memories:
        rows.append([f"{memory.name} read", _traffic(memory.read, memory.read_in_bursts)])
        rows.append([f"{memory.name} written", _traffic(memory.written, memory.written_in_bursts)])
    for name, peak in profile.peaks.items():
        capacity = profile.capacities.get(name)
        rows.append([f"{name} peak", size(peak) + (f" of {size(capacity)}" if capacity else "")])
    rows.append(["constants", size(profile.constants_bytes)])
    rows.append(
        [
            "operators",
            f"{on_npu} on the NPU in {counted(profile.regions, 'region')}, "
            f"{profile.cpu_operators} on the CPU ({percent(profile.cpu_share)})",
        ]
    )
    return rows


def _traffic(useful: int, in_bursts: int) -> str:
    return f"{useful:,} bytes ({in_bursts:,} in bursts)"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: "1 layer", "2 layers"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def engine_rows(profile: Profile) -> list[list[Cell]]:
    """Return one row per engine: its busy share, and the largest causes of its idle time."""
    return [
        [
            engine.name,
            engine.busy,
            percent(_share(engine.busy, profile.cycles)),
            _causes(engine, profile.cycles),
        ]
        for engine in profile.engines
    ]


def stall_rows(layers: Sequence[LayerProfile]) -> list[list[Cell]]:
    """Return one row per layer: its busiest engine, and what that one waited for."""
    return [
        [
            short_name(layer.nodes) or layer.name,
            layer.cycles,
            layer.critical.name,
            percent(_share(layer.critical.busy, layer.cycles)),
            _causes(layer.critical, layer.cycles),
        ]
        for layer in layers
    ]


def _share(cycles: int, total: int) -> float:
    return cycles / total if total else 0.0


def _causes(engine: EngineProfile, total: int) -> str:
    largest = sorted(engine.idle.items(), key=lambda item: -item[1])[:_CAUSES_SHOWN]
    return ", ".join(f"{cause} {percent(_share(cycles, total))}" for cause, cycles in largest)


def title(profile: Profile) -> str:
    """Return what was profiled in one line."""
    return f"{profile.model} on {profile.npu}, rounding {profile.rounding}, one inference"


_ENGINE_HEADERS = ("engine", "busy", "share", "idle because of")
_STALL_HEADERS = ("layer", "cycles", "busiest", "busy", "idle because of")


def profile_text(profile: Profile, stalls: bool = False) -> str:
    """Return the profile as text: title, layers, what they waited for if asked, engines, totals."""
    parts = [title(profile)]
    if not profile.calibrated:
        parts.append(_NOT_CALIBRATED)
    parts.append(text_table(LAYER_HEADERS, layer_rows(profile.layers)))
    if stalls:
        parts.append(text_table(_STALL_HEADERS, stall_rows(profile.layers)))
    parts.append(text_table(_ENGINE_HEADERS, engine_rows(profile)))
    parts.append(key_values(total_rows(profile)))
    return "\n\n".join(parts)


def key_values(rows: Sequence[Sequence[Cell]]) -> str:
    """Return rows of name and value, the values aligned."""
    width = max(len(str(row[0])) for row in rows)
    return "\n".join(f"{str(row[0]).ljust(width)}  {row[1]}" for row in rows)


def profile_html(profile: Profile) -> str:
    """Return the profile as HTML."""
    parts = [f"<p>{title(profile)}</p>"]
    if not profile.calibrated:
        parts.append(f"<p><strong>{_NOT_CALIBRATED}</strong></p>")
    parts.append(html_table(LAYER_HEADERS, layer_rows(profile.layers)))
    parts.append(html_table(_ENGINE_HEADERS, engine_rows(profile)))
    parts.append(html_table(("total", ""), total_rows(profile)))
    return "".join(parts)
