"""What --set takes, and the configurations it makes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from runtime_sim import npu
from runtime_sim.npu import Capabilities, ConfigError, Memory, NpuConfig
from tvm_vnpu.sweep.settings import (
    FIELDS,
    SettingError,
    combinations,
    configured,
    parse_settings,
    value_text,
)

BASE = npu.load("vnpu-256")


def test_every_field_of_a_configuration_can_be_set() -> None:
    named = {entry.name for entry in fields(NpuConfig)} | {entry.name for entry in fields(Memory)}
    structure = {"name", "memories", "region_memory", "capabilities"}
    capabilities = {f"capabilities.{entry.name}" for entry in fields(Capabilities)}
    assert set(FIELDS) == (named - structure) | capabilities | {"array"}


def test_values_are_parsed_by_the_type_of_their_field() -> None:
    texts = [
        "array=8x8,16x4", "spm_kib=128,256,128", "bandwidth=4,0.5", "depthwise_rate=1",
        "capabilities.depthwise_unit=true,false", "capabilities.weight_types=int8,int8+uint8",
    ]  # fmt: skip
    settings = parse_settings(texts)
    assert settings == {
        "array": ("8x8", "16x4"),
        "spm_kib": (128, 256),
        "bytes_per_cycle": (4, 0.5),
        "depthwise_rate": (1,),
        "capabilities.depthwise_unit": (True, False),
        "capabilities.weight_types": (("int8",), ("int8", "uint8")),
    }
    written = [f"{k}={','.join(map(value_text, v))}" for k, v in settings.items()]
    assert parse_settings(written) == settings


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("array", "--set is malformed: seen 'array'; limit FIELD=VALUE,VALUE,...; "
         "for example --set array=8x8,16x16"),
        ("array=", "--set is malformed: seen 'array='; limit FIELD=VALUE,VALUE,...; "
         "for example --set array=8x8,16x16"),
        ("array=8", "array has a malformed value: seen '8'; limit ROWSxCOLS"),
        ("array=-8x8", "array has a malformed value: seen '-8x8'; limit ROWSxCOLS"),
        ("spm_kib=1.5", "spm_kib has a malformed value: seen '1.5'; limit integers"),
        ("spm_kib=128,,", "spm_kib has a malformed value: seen ''; limit integers"),
        ("clock_mhz=nan", "clock_mhz has a malformed value: seen 'nan'; limit numbers"),
        ("bandwidth=inf", "bytes_per_cycle has a malformed value: seen 'inf'; limit numbers"),
        ("capabilities.depthwise_unit=1", "capabilities.depthwise_unit has a malformed value: "
         "seen '1'; limit true and false"),
    ],
)  # fmt: skip
def test_malformed_settings(text: str, line: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_settings([text])
    assert str(caught.value) == line


@pytest.mark.parametrize("name", ["spm", "memories", "name", "capabilities", "capabilities.x"])
def test_an_unknown_field_names_those_there_are(name: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_settings([f"{name}=1"])
    assert str(caught.value).startswith(
        f"an NPU configuration has no such field: seen '{name}'; limit one of array, array_rows, "
    )


@pytest.mark.parametrize(
    ("texts", "seen"),
    [
        (["lanes=1", "lanes=2"], "lanes"),
        (["bandwidth=1", "bytes_per_cycle=2"], "bytes_per_cycle"),
        (["array_cols=8", "array=8x8"], "array and array_cols"),
    ],
)
def test_a_field_is_set_once(texts: list[str], seen: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_settings(texts)
    assert str(caught.value).startswith(f"a field is set twice: seen {seen}")


def test_the_last_field_changes_fastest() -> None:
    found = [tuple(c.values()) for c in combinations({"lanes": (1, 2), "spm_kib": (3, 4)})]
    assert found == [(1, 3), (1, 4), (2, 3), (2, 4)]


def test_a_configuration_is_the_base_with_changes() -> None:
    settings = {"array": "8x4", "latency": 7, "capabilities.float_requantizer": False, "lanes": 3}
    assert configured(BASE, settings) == replace(
        BASE,
        array_rows=8,
        array_cols=4,
        lanes=3,
        memories=(replace(BASE.memories[0], latency=7),),
        capabilities=replace(BASE.capabilities, float_requantizer=False),
    )
    assert configured(BASE, {}) == BASE
    assert configured(BASE, {"bytes_per_cycle": 8}).digest() == BASE.digest()


def test_only_the_first_memory_changes() -> None:
    two = replace(BASE, memories=(Memory("a"), Memory("b")))
    assert configured(two, {"burst": 64}).memories == (Memory("a", burst=64), Memory("b"))


def test_an_impossible_value_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        configured(BASE, {"array": "0x16", "lanes": -1})
    assert caught.value.seen == (
        "array_rows = 0 (an integer from 1 to 256), lanes = -1 (an integer from 1 to 1048576)"
    )
