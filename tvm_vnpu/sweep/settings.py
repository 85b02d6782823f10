"""Which fields of an NPU configuration a sweep can set, how values are written, and the product.

A field is one of NpuConfig, `array` (ROWSxCOLS), one of the first memory (`bytes_per_cycle`, also
called `bandwidth`, `latency`, `burst`) or `capabilities.NAME`. Their types are those of the
defaults, so a new field of a configuration can be swept without a line here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields

from runtime_sim import npu as configurations
from runtime_sim.errors import VnpuError
from runtime_sim.npu import Capabilities, Memory, NpuConfig

Value = str | int | float | bool | tuple[str, ...]
Settings = Mapping[str, Value]
"""One combination: field name to value."""

ARRAY = "array"
_ALIASES = {"bandwidth": "bytes_per_cycle"}
_ARRAY = re.compile(r"\d+x\d+")
_CAPABILITY = "capabilities."
_FIXED = ("name", "memories", "region_memory", "capabilities")
_MEMORY = tuple(entry.name for entry in fields(Memory) if entry.name != "name")


class SettingError(VnpuError):
    """A sweep names a field that there is none of, or a value that is no value of its field."""


def _types() -> dict[str, str]:
    """Return every field that can be set with the name of its type."""
    config = {entry.name: str(entry.type) for entry in fields(NpuConfig)}
    table = {ARRAY: ARRAY} | {key: kind for key, kind in config.items() if key not in _FIXED}
    table |= {entry.name: str(entry.type) for entry in fields(Memory) if entry.name in _MEMORY}
    return table | {_CAPABILITY + entry.name: str(entry.type) for entry in fields(Capabilities)}


FIELDS: Mapping[str, str] = _types()


def parse_settings(texts: Iterable[str]) -> dict[str, tuple[Value, ...]]:
    """Return the values of each field from texts like `array=8x8,16x16`.

    Values of one field are joined by commas, element types of a capability by `+`. Raises
    SettingError for an unknown field, one that is set twice and a value of the wrong type; whether
    a value is possible is for its row to say.
    """
    result: dict[str, tuple[Value, ...]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise SettingError(
                "--set is malformed",
                seen=repr(text),
                limit="FIELD=VALUE,VALUE,...",
                fix="for example --set array=8x8,16x16",
            )
        field = field_name(name)
        if field in result:
            raise SettingError("a field is set twice", seen=name, fix="give all values at once")
        parsed = [_value(field, part.strip()) for part in values.split(",")]
        result[field] = tuple(dict.fromkeys(parsed))
    both = [name for name in ("array_rows", "array_cols") if name in result]
    if ARRAY in result and both:
        raise SettingError("a field is set twice", seen=f"{ARRAY} and {both[0]}")
    return result


def field_name(name: str) -> str:
    """Return the field that a name stands for. Raises SettingError where there is none."""
    field = _ALIASES.get(name, name)
    if field not in FIELDS:
        raise SettingError(
            "an NPU configuration has no such field",
            seen=repr(name),
            limit=f"one of {', '.join([*FIELDS, *_ALIASES])}",
        )
    return field


def _array(text: str) -> str:
    if _ARRAY.fullmatch(text) is None:
        raise ValueError
    return text


def _number(text: str) -> int | float:
    """Return an int where the text is one, so that 8 and a preset's 8 are one configuration."""
    try:
        return int(text)
    except ValueError:
        real = float(text)
        if not math.isfinite(real):
            raise
        return real


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


_PARSERS: Mapping[str, tuple[Callable[[str], Value], str]] = {
    ARRAY: (_array, "ROWSxCOLS"),
    "int": (int, "integers"),
    "float": (_number, "numbers"),
    "bool": (_boolean, "true and false"),
    "tuple[str, ...]": (lambda text: tuple(text.split("+")), "names joined by +"),
}


def _value(field: str, text: str) -> Value:
    parse, limit = _PARSERS[FIELDS[field]]
    try:
        return parse(text)
    except (ValueError, KeyError) as error:
        raise SettingError(
            f"{field} has a malformed value", seen=repr(text), limit=limit
        ) from error


def combinations(settings: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """Yield every combination, the last field changing fastest."""
    for values in itertools.product(*settings.values()):
        yield dict(zip(settings, values))


def value_text(value: Value) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "+".join(value) if isinstance(value, tuple) else str(value)


def configured(base: NpuConfig, settings: Settings) -> NpuConfig:
    """Return the base with a combination's values. Raises ConfigError for an impossible one."""
    table = asdict(base)
    for name, value in settings.items():
        if name in _MEMORY:
            table["memories"][0][name] = value
        elif name.startswith(_CAPABILITY):
            table["capabilities"][name.removeprefix(_CAPABILITY)] = value
        else:
            table[name] = value
    return configurations.from_dict(table, base.name)
