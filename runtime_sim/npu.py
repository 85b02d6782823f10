"""NPU configurations: presets, user TOML files and the capabilities that predicates read."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from runtime_sim.errors import VnpuError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class ConfigError(VnpuError):
    """An NPU configuration is missing, unreadable or holds an illegal value."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One DRAM: `bytes_per_cycle` bandwidth, `latency` cycles, `burst` bytes."""

    name: str = "dram"
    bytes_per_cycle: float = 8
    latency: int = 100
    burst: int = 32


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the silicon can do; predicates, the quantiser and legalisation read these."""

    activation_types: tuple[str, ...] = ("int8", "uint8")
    weight_types: tuple[str, ...] = ("int8", "uint8")
    asymmetric_activations: bool = True
    asymmetric_weights: bool = True
    per_channel_scales: bool = True
    per_channel_zero_points: bool = True
    power_of_two_scales: bool = False
    depthwise_unit: bool = True
    float_requantizer: bool = True
    lut_unit: bool = True


@dataclass(frozen=True, slots=True)
class NpuConfig:
    """One NPU: array shape, memories, rates, capabilities. Sizes are bytes unless named `_kib`."""

    name: str
    array_rows: int = 16
    array_cols: int = 16
    depthwise_rate: float = 0.5
    lanes: int = 32
    spm_kib: int = 256
    acc_kib: int = 64
    memories: tuple[Memory, ...] = (Memory(),)
    region_memory: tuple[int, ...] = (0,) * 16
    queue_depth: int = 8
    instruction_memory: int = 4096
    clock_mhz: float = 1000
    capabilities: Capabilities = field(default_factory=Capabilities)

    @property
    def spm_bytes(self) -> int:
        """Return the scratchpad's size in bytes."""
        return self.spm_kib * 1024

    @property
    def acc_elements(self) -> int:
        """Return how many int32 elements the accumulator holds."""
        return self.acc_kib * 1024 // 4

    @property
    def macs_per_cycle(self) -> int:
        """Return the array's peak int8 multiply-accumulates per cycle."""
        return self.array_rows * self.array_cols

    def memory_of(self, region: int) -> Memory:
        """Return the memory that backs an address region (0..15)."""
        return self.memories[self.region_memory[region]]

    def to_json(self) -> str:
        """Return the canonical JSON text: equal configurations give equal text."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """Return the configuration's hash: 16 hexadecimal digits, the name left out."""
        return hashlib.sha256(replace(self, name="").to_json().encode()).hexdigest()[:16]


_INTEGERS = {
    "array_rows": (1, 256),
    "array_cols": (1, 256),
    "lanes": (1, 1 << 20),
    "spm_kib": (1, 1 << 18),
    "acc_kib": (1, 1 << 16),
    "queue_depth": (1, 1 << 20),
    "instruction_memory": (1, 1 << 20),
}
_NUMBERS = {"depthwise_rate": (0.001, 1000), "clock_mhz": (0.001, 1_000_000)}
_MEMORY_INTEGERS = {"latency": (0, 1 << 20), "burst": (1, 1 << 20)}
_MEMORY_NUMBERS = {"bytes_per_cycle": (0.001, 1_000_000)}
_TYPES = ("int8", "uint8")
_MAX_SHOWN = 60
_ARRAY = re.compile(r"([0-9]{1,9})x([0-9]{1,9})")


def validate(config: NpuConfig) -> NpuConfig:
    """Return `config` if every value is legal; ConfigError lists all that are not."""
    problems = []
    if not _is_name(config.name):
        problems.append(f"name = {_shown(config.name)} (a text of printable characters)")
    problems += _range_problems(config, "", _INTEGERS, _NUMBERS)
    problems += _memory_problems(config)
    problems += _capability_problems(config.capabilities)
    if problems:
        raise ConfigError(
            f"NPU configuration {_shown(config.name)} is not legal",
            seen=", ".join(problems),
            fix="correct the named values",
        )
    return config


def _range_problems(
    record: object,
    where: str,
    integers: Mapping[str, tuple[int, int]],
    numbers: Mapping[str, tuple[float, float]],
) -> Iterator[str]:
    for name, (low, high) in integers.items():
        value = getattr(record, name)
        if not _is_integer(value) or not low <= value <= high:
            yield f"{where}{name} = {_shown(value)} (an integer from {low} to {high})"
    for name, (least, most) in numbers.items():
        value = getattr(record, name)
        if not (_is_integer(value) or isinstance(value, float)) or not least <= value <= most:
            yield f"{where}{name} = {_shown(value)} (a number from {least} to {most})"


def _memory_problems(config: NpuConfig) -> Iterator[str]:
    names = [memory.name for memory in config.memories]
    if not 1 <= len(names) <= 16:
        yield f"memories = {len(names)} of them (1 to 16)"
    for index, memory in enumerate(config.memories):
        where = f"memory {_shown(memory.name)} "
        if not _is_name(memory.name):
            yield f"memories[{index}].name = {_shown(memory.name)} (a text of printable characters)"
        elif memory.name in names[:index]:
            yield f"{where}is there twice (a name for each)"
        yield from _range_problems(memory, where, _MEMORY_INTEGERS, _MEMORY_NUMBERS)
    if len(config.region_memory) != 16 or not all(
        _is_integer(index) and 0 <= index < len(names) for index in config.region_memory
    ):
        yield (
            f"region_memory = {_shown(list(config.region_memory))} (16 indices of the "
            f"{len(names)} memories)"
        )


def _capability_problems(capabilities: Capabilities) -> Iterator[str]:
    for entry in fields(Capabilities):
        value = getattr(capabilities, entry.name)
        if isinstance(entry.default, bool):
            if not isinstance(value, bool):
                yield f"capabilities.{entry.name} = {_shown(value)} (true or false)"
        elif (
            not isinstance(value, tuple)
            or not value
            or not all(isinstance(item, str) and item in _TYPES for item in value)
        ):
            shown = _shown(list(value) if isinstance(value, tuple) else value)
            yield f"capabilities.{entry.name} = {shown} (a list, some of {', '.join(_TYPES)})"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _shown(value: object) -> str:
    """Return a value as Python writes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write integers of thousands of digits
        text = f"an integer of {value.bit_length()} bits" if isinstance(value, int) else "?"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def presets() -> tuple[str, ...]:
    """Return the names of the built-in configurations."""
    folder = resources.files("runtime_sim") / "presets"
    return tuple(sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml")))


def load(name_or_path: str | Path | NpuConfig) -> NpuConfig:
    """Return a preset by name, or the configuration in a .toml file.

    Raises ConfigError for an unknown preset, an unreadable file, an unknown key or a bad value.
    """
    if isinstance(name_or_path, NpuConfig):
        return validate(name_or_path)
    text = str(name_or_path)
    if text.endswith(".toml"):
        path = Path(text)
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a NUL in the name
            raise ConfigError(
                f"cannot read NPU configuration {text}",
                seen=error,
                fix="give a readable .toml file",
            ) from error
        return from_toml(content, path.stem)
    if text not in presets():
        raise ConfigError(
            f"unknown NPU {text!r}",
            limit=f"one of {', '.join(presets())}",
            fix="name a preset or a .toml file",
        )
    source = resources.files("runtime_sim") / "presets" / f"{text}.toml"
    return from_toml(source.read_text(encoding="utf-8"), text)


def from_toml(text: str, name: str) -> NpuConfig:
    """Build a configuration from TOML text; keys are the fields of NpuConfig, absent ones default.

    `array = "RxC"` stands for array_rows and array_cols. Raises ConfigError as `load`.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also integers that are too long
        raise ConfigError(f"NPU configuration {name!r} is not TOML", seen=error) from error
    both = [key for key in ("array_rows", "array_cols") if key in table]
    if "array" in table and both:
        raise ConfigError(
            f"NPU configuration {name!r} sizes the array twice",
            seen=f"array and {both[0]}",
            fix="leave one out",
        )
    return from_dict(table, name)


def from_json(text: str) -> NpuConfig:
    """Build a configuration from the text of `NpuConfig.to_json`. Raises ConfigError as `load`."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("NPU configuration is not JSON", seen=error) from error
    if not isinstance(table, dict):
        raise ConfigError("NPU configuration is not a JSON object", seen=type(table).__name__)
    return from_dict(table, "json")


def from_dict(table: dict[str, Any], name: str) -> NpuConfig:
    """Build a configuration from a parsed table; see `from_toml`."""
    values = dict(table)
    values.setdefault("name", name)
    if "array" in values:
        values["array_rows"], values["array_cols"] = _array(values.pop("array"), name)
    for key in ("memories", "region_memory"):
        if key in values and not isinstance(values[key], (list, tuple)):
            raise ConfigError(
                f"NPU configuration {name!r}: {key} is not a list", seen=_shown(values[key])
            )
    if "memories" in values:
        values["memories"] = tuple(_record(Memory, m, "memories", name) for m in values["memories"])
    if "region_memory" in values:
        values["region_memory"] = tuple(values["region_memory"])
    if "capabilities" in values:
        values["capabilities"] = _record(Capabilities, values["capabilities"], "capabilities", name)
    return validate(_record(NpuConfig, values, "", name))


def _array(value: object, name: str) -> tuple[int, int]:
    match = _ARRAY.fullmatch(value.lower()) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(
            f"NPU configuration {name!r}: array is not ROWSxCOLS",
            seen=_shown(value),
            fix='write "16x16"',
        )
    return int(match[1]), int(match[2])


def _record(kind: Any, table: object, where: str, name: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"NPU configuration {name!r}: {where} is not a table", seen=_shown(table))
    known = [entry.name for entry in fields(kind)]
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ConfigError(
            f"NPU configuration {name!r} has an unknown key",
            seen=", ".join(f"{where}.{key}".strip(".") for key in unknown),
            limit=f"one of {', '.join(known)}",
        )
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})
