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
            "0), memory 'dram' burst = 0 (an integer from 1); correct the named values",
        ),
        ('array = "16"', "NPU configuration 'x': array is not ROWSxCOLS: seen 16; write \"16x16\""),
        (
            "[capabilities]\nlut = true",
            "NPU configuration 'x' has an unknown key: seen capabilities.lut; limit one of "
            "activation_types, weight_types, asymmetric_activations, asymmetric_weights, "
            "per_channel_scales, per_channel_zero_points, power_of_two_scales, depthwise_unit, "
            "float_requantizer",
        ),
        (
            'capabilities = "all"',
            "NPU configuration 'x': capabilities is not a table: seen all",
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
