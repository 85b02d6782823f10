"""The networks with random weights: their sizes, their names, one region each."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from benchmarks.networks import NETWORKS, RESNET18_LAYERS, mobilenet_v1, resnet18
from runtime_sim.npu import load
from tvm_vnpu.artifact.prepare import Model, inference_of
from tvm_vnpu.relax import from_onnx
from tvm_vnpu.report.make_profile import make_profile
from tvm_vnpu.report.profile import Profile

MACS = {"resnet18": 1_814_073_344, "mobilenet_v1": 568_740_352, "mobilenet_v2": 300_774_272}
"""Multiply-accumulates at 224 x 224 as the papers and their reimplementations count them."""


@pytest.fixture(scope="module", params=NETWORKS)
def profile(request: pytest.FixtureRequest) -> Profile:
    """Return the profile of one network with placeholder ranges."""
    model = NETWORKS[request.param]()
    subject = Model(Path(request.param), model, from_onnx(model), False)
    return make_profile(inference_of(subject, load("vnpu-256")))


def test_a_network_is_one_region(profile: Profile) -> None:
    assert (profile.regions, profile.cpu_operators) == (1, 0)


def test_a_network_has_the_macs_of_its_paper(profile: Profile) -> None:
    assert profile.macs == MACS[profile.model]


def _convolutions(model: onnx.ModelProto) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return node name -> (weight shape, strides) of every convolution."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    found = {}
    for node in model.graph.node:
        if node.op_type == "Conv":
            attributes = {a.name: tuple(a.ints) for a in node.attribute}
            found[node.name] = (shapes[node.input[1]], attributes["strides"])
    return found


def test_the_distinct_layers_of_resnet18_are_found_by_number() -> None:
    convolutions = _convolutions(resnet18())
    assert len(convolutions) == 20
    expected = {
        "C1": (64, 3, 7, 2), "C2": (64, 64, 3, 1), "C3": (128, 64, 3, 2), "C4": (128, 64, 1, 2),
        "C5": (128, 128, 3, 1), "C6": (256, 128, 3, 2), "C7": (256, 128, 1, 2),
        "C8": (256, 256, 3, 1), "C9": (512, 256, 3, 2), "C10": (512, 256, 1, 2),
        "C11": (512, 512, 3, 1),
    }  # fmt: skip
    for number, (out, inside, kernel, stride) in expected.items():
        found = convolutions[RESNET18_LAYERS[number]]
        assert found == ((out, inside, kernel, kernel), (stride, stride))


def test_weights_are_the_same_every_time() -> None:
    assert mobilenet_v1(32) == mobilenet_v1(32)
