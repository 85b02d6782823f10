"""Where each layer's cycles went: every engine's add up, and the layers add up to the stream."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_sim import npu, timing
from runtime_sim.isa.codec import Words
from runtime_sim.npu import Memory, NpuConfig
from tests.artifact.models import classifier, write
from tests.runtime_sim.programs import drawn_programs
from tvm_vnpu.artifact import profile_model
from tvm_vnpu.artifact.prepare import inference_of, read_model
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import layer_ends, make_profile
from tvm_vnpu.report.profile import EngineProfile, Profile
from tvm_vnpu.report.profile_text import profile_text, stall_rows
from tvm_vnpu.report.stalls import Stretches, engines_by_layer

FASHION_MNIST = Path("examples") / "fashion_mnist" / "model.onnx"


def two_memories(config: NpuConfig) -> NpuConfig:
    """Return the NPU with the call's arguments in a slower memory of their own."""
    slow = Memory("slow", bytes_per_cycle=2, latency=300, burst=64)
    return replace(config, memories=(*config.memories, slow), region_memory=(0, 0) + (1,) * 14)


CONFIGURATIONS = {
    "vnpu-256": npu.load("vnpu-256"),
    "queues of 1": replace(npu.load("vnpu-64"), queue_depth=1),
    "two memories": two_memories(npu.load("vnpu-1024")),
}


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def inference(request: pytest.FixtureRequest, repository: Path) -> Inference:
    """Return one inference of the Fashion-MNIST network."""
    return inference_of(read_model(repository / FASHION_MNIST), CONFIGURATIONS[request.param])


@pytest.fixture(scope="module")
def profile(inference: Inference) -> Profile:
    return make_profile(inference)


def _engines(words: Words, config: NpuConfig, ends: list[int]) -> list[tuple[EngineProfile, ...]]:
    return engines_by_layer(words, timing.simulate(words, config), config, ends)


def test_busy_and_idle_are_the_span_of_every_layer(profile: Profile) -> None:
    for layer in profile.layers:
        assert [engine.name for engine in layer.engines] == ["LD", "MX", "VX", "ST", "CTRL"]
        for engine in layer.engines:
            assert engine.busy + sum(engine.idle.values()) == layer.cycles
            assert min(engine.idle.values(), default=1) > 0


def test_layers_add_up_to_the_stream_cause_by_cause(profile: Profile) -> None:
    for total in profile.engines:
        mine = [e for layer in profile.layers for e in layer.engines if e.name == total.name]
        idle = sum((Counter(engine.idle) for engine in mine), Counter())
        assert (sum(engine.busy for engine in mine), idle) == (total.busy, Counter(total.idle))


@given(data=st.data())
def test_cuts_anywhere_add_up(inference: Inference, data: st.DataObject) -> None:
    words, config = inference.regions[0].words, inference.npu
    total = timing.simulate(words, config).total
    cuts = sorted(data.draw(st.lists(st.integers(0, total), max_size=5)))
    spans = np.diff([0, *cuts, total])
    for span, engines in zip(spans, _engines(words, config, [*cuts, total]), strict=True):
        for engine in engines:
            assert engine.busy + sum(engine.idle.values()) == span


@given(
    program=drawn_programs(60),
    depth=st.integers(1, 8),
    slow=st.booleans(),
    share=st.floats(0, 1),
)
def test_random_streams_add_up(program: Words, depth: int, slow: bool, share: float) -> None:
    config = replace(npu.load("vnpu-64"), queue_depth=depth)
    config = two_memories(config) if slow else config
    timeline = timing.simulate(program, config)
    cut = int(timeline.total * share)
    for parts in zip(*_engines(program, config, [cut, timeline.total]), strict=True):
        use = timeline.engines[parts[0].name]
        idle = sum((Counter(part.idle) for part in parts), Counter())
        assert (sum(part.busy for part in parts), idle) == (use.busy, Counter(use.idle))
        assert [part.busy + sum(part.idle.values()) for part in parts] == [
            cut,
            timeline.total - cut,
        ]


def test_stretches_are_cut() -> None:
    stretches = Stretches(np.array([2, 5, 5, 9]), np.array([4, 5, 8, 10]))
    assert stretches.before(np.arange(12)).tolist() == [0, 0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 6]
    odd = stretches.before(np.arange(12), lambda at: at // 2)
    assert odd.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_the_busiest_engine_is_critical(profile: Profile) -> None:
    for layer in profile.layers:
        assert layer.critical.busy == max(engine.busy for engine in layer.engines)
    table = profile.to_dict()["layers"][0]
    assert table["critical"] == profile.layers[0].critical.name
    assert table["engines"][0]["name"] == "LD"


def test_the_table_names_the_largest_causes(repository: Path) -> None:
    profile = profile_model(repository / FASHION_MNIST)
    layer, row = profile.layers[0], stall_rows(profile.layers)[0]
    largest = max(layer.critical.idle.items(), key=lambda item: item[1])
    assert row[1:3] == [layer.cycles, layer.critical.name]
    assert str(row[4]).startswith(f"{largest[0]} {largest[1] / layer.cycles:.1%}")
    assert "busiest" in profile_text(profile, stalls=True)
    assert "busiest" not in str(profile)


def test_the_bound_names_the_memory(inference: Inference, profile: Profile) -> None:
    memories = [f"memory {memory.name}" for memory in inference.npu.memories]
    for layer in profile.layers:
        named = [name for name in layer.bounds if name.startswith("memory")]
        assert set(named) <= set(memories) and named
        for name in named:
            assert layer.bounds[name] > 0
    first = profile.layers[0]
    if len(memories) > 1:
        # The input lies in the slow memory, the weights in the fast one.
        assert first.bound == "memory slow" and first.bounds["memory slow"] > 0


def test_the_lower_bound_leaves_the_controller_out(tmp_path: Path) -> None:
    config = replace(
        npu.load("vnpu-4096"), memories=(Memory(bytes_per_cycle=4096, latency=0, burst=1),)
    )
    profile = profile_model(write(tmp_path, classifier()), npu=config)
    layer = profile.layers[0]
    assert layer.bound == "controller"
    assert layer.lower_bound_cycles < layer.bounds["controller"] < layer.cycles


def test_layers_end_in_order(inference: Inference) -> None:
    region = inference.regions[0]
    timeline = timing.simulate(region.words, inference.npu)
    ends = layer_ends(region, timeline)
    assert ends == sorted(ends) and ends[-1] == timeline.total
