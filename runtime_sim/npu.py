"""NPU configurations: presets, user TOML files and the capabilities that predicates read."""

from __future__ import annotations

import hashlib
import json
import sys
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


_POSITIVE_INTEGERS = (
    "array_rows", "array_cols", "lanes", "spm_kib", "acc_kib", "queue_depth", "instruction_memory",
)  # fmt: skip
_LIMITS = {"array_rows": 256, "array_cols": 256, "spm_kib": 1 << 18, "acc_kib": 1 << 16}


def validate(config: NpuConfig) -> NpuConfig:
    """Return `config` if every value is legal; ConfigError lists all that are not."""
    problems = []
    for name in _POSITIVE_INTEGERS:
        value, limit = getattr(config, name), _LIMITS.get(name, 1 << 20)
        if not _is_integer(value) or not 1 <= value <= limit:
            problems.append(f"{name} = {value!r} (an integer from 1 to {limit})")
    for name in ("depthwise_rate", "clock_mhz"):
        if not _is_positive(getattr(config, name)):
            problems.append(f"{name} = {getattr(config, name)!r} (a number above 0)")
    problems += _memory_problems(config)
    problems += _capability_problems(config.capabilities)
    if problems:
        raise ConfigError(
            f"NPU configuration {config.name!r} is not legal",
            seen=", ".join(problems),
            fix="correct the named values",
        )
    return config


def _memory_problems(config: NpuConfig) -> list[str]:
    problems = []
    for memory in config.memories:
        where = f"memory {memory.name!r}"
        if not _is_positive(memory.bytes_per_cycle):
            problems.append(f"{where} bytes_per_cycle = {memory.bytes_per_cycle!r} (above 0)")
        if not _is_integer(memory.latency) or memory.latency < 0:
            problems.append(f"{where} latency = {memory.latency!r} (an integer from 0)")
        if not _is_integer(memory.burst) or memory.burst < 1:
            problems.append(f"{where} burst = {memory.burst!r} (an integer from 1)")
    if len(config.region_memory) != 16 or not all(
        _is_integer(index) and 0 <= index < len(config.memories) for index in config.region_memory
    ):
        problems.append(
            f"region_memory = {list(config.region_memory)!r} (16 indices of the "
            f"{len(config.memories)} memories)"
        )
    return problems


def _capability_problems(capabilities: Capabilities) -> list[str]:
    problems = []
    for name in ("activation_types", "weight_types"):
        types = getattr(capabilities, name)
        if not types or not set(types) <= {"int8", "uint8"}:
            problems.append(f"capabilities.{name} = {list(types)!r} (some of int8, uint8)")
    for entry in fields(Capabilities):
        value = getattr(capabilities, entry.name)
        if not isinstance(value, (bool, tuple)):
            problems.append(f"capabilities.{entry.name} = {value!r} (true or false)")
    return problems


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


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
            return from_toml(path.read_text(encoding="utf-8"), path.stem)
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"cannot read NPU configuration {text}",
                seen=error,
                fix="give a readable .toml file",
            ) from error
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
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"NPU configuration {name!r} is not TOML", seen=error) from error
    return from_dict(table, name)


def from_json(text: str) -> NpuConfig:
    """Build a configuration from the text of `NpuConfig.to_json`. Raises ConfigError as `load`."""
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
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
            raise ConfigError(f"NPU configuration {name!r}: {key} is not a list", seen=values[key])
    if "memories" in values:
        values["memories"] = tuple(_record(Memory, m, "memories", name) for m in values["memories"])
    if "region_memory" in values:
        values["region_memory"] = tuple(values["region_memory"])
    if "capabilities" in values:
        values["capabilities"] = _record(Capabilities, values["capabilities"], "capabilities", name)
    return validate(_record(NpuConfig, values, "", name))


def _array(value: object, name: str) -> tuple[int, int]:
    parts = str(value).lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise ConfigError(
            f"NPU configuration {name!r}: array is not ROWSxCOLS", seen=value, fix='write "16x16"'
        )
    return int(parts[0]), int(parts[1])


def _record(kind: Any, table: object, where: str, name: str) -> Any:
    if not isinstance(table, dict):
        raise ConfigError(f"NPU configuration {name!r}: {where} is not a table", seen=table)
    known = [entry.name for entry in fields(kind)]
    unknown = [key for key in table if key not in known]
    if unknown:
        raise ConfigError(
            f"NPU configuration {name!r} has an unknown key",
            seen=", ".join(f"{where}.{key}".strip(".") for key in unknown),
            limit=f"one of {', '.join(known)}",
        )
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()})
