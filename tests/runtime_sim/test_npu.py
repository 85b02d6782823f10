"""Configurations: presets, TOML files, and every bad value named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime_sim import npu
from runtime_sim.npu import ConfigError


@pytest.mark.parametrize("name", npu.presets())
def test_presets_load_and_survive_json(name: str) -> None:
    config = npu.load(name)
    assert config.name == name
    assert npu.from_json(config.to_json()) == config


def test_preset_figures() -> None:
    figures = {
        name: (c.array_rows, c.array_cols, c.lanes, c.spm_kib, c.acc_kib, m.bytes_per_cycle)
        for name in npu.presets()
        for c in [npu.load(name)]
        for m in c.memories
    }
    assert figures == {
        "vnpu-64": (8, 8, 8, 64, 16, 4),
        "vnpu-256": (16, 16, 32, 256, 64, 8),
        "vnpu-256-lowbw": (16, 16, 32, 256, 64, 2),
        "vnpu-1024": (32, 32, 64, 512, 128, 16),
        "vnpu-4096": (64, 64, 128, 2048, 512, 32),
    }


def test_digest_ignores_the_name_only() -> None:
    config = npu.load("vnpu-256")
    assert replace(config, name="other").digest() == config.digest()
    assert replace(config, lanes=64).digest() != config.digest()


def test_a_file_overrides_some_keys(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('array = "8x32"\n[[memories]]\nname = "lpddr"\nbytes_per_cycle = 2.5\n')
    config = npu.load(path)
    assert (config.name, config.array_rows, config.array_cols) == ("mine", 8, 32)
    assert config.memory_of(3) == npu.Memory("lpddr", 2.5, 100, 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "lanes = 0\nspm_kib = 2.5",
            "NPU configuration 'x' is not legal: seen lanes = 0 (an integer from 1 to 1048576), "
            "spm_kib = 2.5 (an integer from 1 to 262144); correct the named values",
        ),
        (
            "[[memories]]\nburst = 0\nlatency = -1",
            "NPU configuration 'x' is not legal: seen memory 'dram' latency = -1 (an integer from "
            "0 to 1048576), memory 'dram' burst = 0 (an integer from 1 to 1048576); correct the "
            "named values",
        ),
        (
            'array = "16"',
            "NPU configuration 'x': array is not ROWSxCOLS: seen '16'; write \"16x16\"",
        ),
        (
            "[capabilities]\nlut = true",
            "NPU configuration 'x' has an unknown key: seen capabilities.lut; limit one of "
            "activation_types, weight_types, asymmetric_activations, asymmetric_weights, "
            "per_channel_scales, per_channel_zero_points, power_of_two_scales, depthwise_unit, "
            "float_requantizer, lut_unit",
        ),
        (
            'capabilities = "all"',
            "NPU configuration 'x': capabilities is not a table: seen 'all'",
        ),
        (
            "region_memory = [0, 1]",
            "NPU configuration 'x' is not legal: seen region_memory = [0, 1] (16 indices of the "
            "1 memories); correct the named values",
        ),
    ],
)
def test_bad_values_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        npu.from_toml(text, "x")
    assert str(error.value) == message


def test_unknown_preset_and_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^unknown NPU 'vnpu-1': limit one of vnpu-1024, "):
        npu.load("vnpu-1")
    with pytest.raises(ConfigError, match="^cannot read NPU configuration "):
        npu.load(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="^NPU configuration 'x' is not TOML: seen "):
        npu.from_toml("lanes =", "x")
    with pytest.raises(ConfigError, match="^NPU configuration is not JSON: seen "):
        npu.from_json("{")


_TYPES = "(a list, some of int8, uint8)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = 3", "name = 3 (a text of printable characters)"),
        ('name = ""', "name = '' (a text of printable characters)"),
        ("clock_mhz = inf", "clock_mhz = inf (a number from 0.001 to 1000000)"),
        ("clock_mhz = 1e308", "clock_mhz = 1e+308 (a number from 0.001 to 1000000)"),
        ("clock_mhz = 1e-300", "clock_mhz = 1e-300 (a number from 0.001 to 1000000)"),
        ("clock_mhz = nan", "clock_mhz = nan (a number from 0.001 to 1000000)"),
        ("clock_mhz = true", "clock_mhz = True (a number from 0.001 to 1000000)"),
        ("depthwise_rate = inf", "depthwise_rate = inf (a number from 0.001 to 1000)"),
        ("lanes = [1]", "lanes = (1,) (an integer from 1 to 1048576)"),
        ("lanes = {a = 1}", "lanes = {'a': 1} (an integer from 1 to 1048576)"),
        ("lanes = 1979-05-27", "lanes = datetime.date(1979, 5, 27) (an integer from 1 to 1048576)"),
        (
            "[[memories]]\nbytes_per_cycle = inf",
            "memory 'dram' bytes_per_cycle = inf (a number from 0.001 to 1000000)",
        ),
        (
            '[[memories]]\nbytes_per_cycle = "a"',
            "memory 'dram' bytes_per_cycle = 'a' (a number from 0.001 to 1000000)",
        ),
        (
            "[[memories]]\nlatency = 99999999999999999999",
            "memory 'dram' latency = 99999999999999999999 (an integer from 0 to 1048576)",
        ),
        ("[[memories]]\nname = 1", "memories[0].name = 1 (a text of printable characters)"),
        (
            '[[memories]]\nname = "a"\n[[memories]]\nname = "a"',
            "memory 'a' is there twice (a name for each)",
        ),
        ("capabilities.activation_types = 1", f"capabilities.activation_types = 1 {_TYPES}"),
        (
            'capabilities.activation_types = [["int8"]]',
            f"capabilities.activation_types = [['int8']] {_TYPES}",
        ),
        (
            'capabilities.weight_types = "int8"',
            f"capabilities.weight_types = 'int8' {_TYPES}",
        ),
        ("capabilities.weight_types = []", f"capabilities.weight_types = [] {_TYPES}"),
        (
            'capabilities.depthwise_unit = ["int8"]',
            "capabilities.depthwise_unit = ('int8',) (true or false)",
        ),
        ("region_memory = [[0]]", "region_memory = [[0]] (16 indices of the 1 memories)"),
    ],
)
def test_a_value_no_configuration_can_have(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        npu.from_toml(text, "x")
    name = text.partition(" = ")[2] if text.startswith("name") else "'x'"
    name = name.replace('"', "'")
    assert str(error.value) == (
        f"NPU configuration {name} is not legal: seen {problem}; correct the named values"
    )


def test_memories_none_and_too_many() -> None:
    for text, count in (("memories = []", 0), ("memories = [" + "{}," * 17 + "]", 17)):
        with pytest.raises(ConfigError, match=f"seen memories = {count} of them \\(1 to 16\\)"):
            npu.from_toml(text, "x")


@pytest.mark.parametrize("array", ['"²x1"', '"١x١"', '"1x"', "16", '"9999999999x1"', "[1, 2]"])
def test_an_array_is_written_in_ascii_digits(array: str) -> None:
    with pytest.raises(ConfigError) as error:
        npu.from_toml(f"array = {array}", "x")
    seen = array.replace('"', "'")
    assert str(error.value) == (
        f"NPU configuration 'x': array is not ROWSxCOLS: seen {seen}; write \"16x16\""
    )


def test_an_array_is_sized_once() -> None:
    with pytest.raises(ConfigError) as error:
        npu.from_toml('array = "8x8"\narray_cols = 4', "x")
    assert str(error.value) == (
        "NPU configuration 'x' sizes the array twice: seen array and array_cols; leave one out"
    )


def test_absurd_texts_are_one_line(tmp_path: Path) -> None:
    for text in ("lanes = " + "9" * 5000, "lanes = " + "[" * 5000, "lanes = 0x" + "f" * 9999):
        with pytest.raises(ConfigError) as error:
            npu.from_toml(text, "x")
        assert "\n" not in str(error.value) and len(str(error.value)) < 300
    for name in ("a\0b.toml", "a" * 300 + ".toml"):
        with pytest.raises(ConfigError, match="^cannot read NPU configuration "):
            npu.load(tmp_path / name)
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(ConfigError, match="latin.toml: seen 'utf-8' codec"):
        npu.load(tmp_path / "latin.toml")
