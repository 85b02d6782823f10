"""One row of a sweep; runs in a worker process, which imports and quantises the model once."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import tvm

from runtime_sim.errors import VnpuError
from runtime_sim.npu import Capabilities, ConfigError, NpuConfig
from tvm_vnpu.artifact.prepare import Model, placeholder_module, read_model, timed_inference
from tvm_vnpu.report.inference import Inference
from tvm_vnpu.report.make_profile import make_profile
from tvm_vnpu.report.placement import tally
from tvm_vnpu.sweep.result import Figures, Row
from tvm_vnpu.sweep.settings import Settings, configured, value_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """What every row shares: the model file, its pinned shapes, the rounding, the base NPU."""

    path: Path
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    rounding: str | None
    base: NpuConfig


def measure(subject: Subject, settings: Settings) -> Row:
    """Return the row of one combination; what is wrong with it becomes its reason."""
    texts = {name: value_text(value) for name, value in settings.items()}
    digest = ""
    try:
        config = configured(subject.base, settings)
        digest = config.digest()
        inference = _inference(subject, config)
        return Row(texts, digest, Figures.of(make_profile(inference)), _on_cpu(inference))
    except ConfigError as error:
        return Row(texts, digest, None, str(error.seen))
    except VnpuError as error:
        return Row(texts, digest, None, str(error))
    except Exception as error:  # a fault of the compiler costs its own row, not the others
        _log.warning("sweep: %s", texts, exc_info=True)
        text = " ".join(str(error).split())
        return Row(texts, digest, None, f"internal error: {type(error).__name__}: {text}")


def _inference(subject: Subject, config: NpuConfig) -> Inference:
    module = quantised(subject.path, subject.shapes, config.capabilities)
    return timed_inference(model_of(subject.path, subject.shapes), module, config, subject.rounding)


@lru_cache(maxsize=1)
def model_of(path: Path, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> Model:
    """Return the imported model. Raises as `read_model`."""
    return read_model(path, dict(shapes) or None)


@lru_cache(maxsize=4)
def quantised(
    path: Path, shapes: tuple[tuple[str, tuple[int, ...]], ...], capabilities: Capabilities
) -> tvm.IRModule:
    """Return the quantised module: the recipe depends on the NPU's capabilities only."""
    return placeholder_module(
        model_of(path, shapes), NpuConfig("recipe", capabilities=capabilities)
    )


def _on_cpu(inference: Inference) -> str:
    """Return why operators stay on the CPU; empty where none do."""
    count = tally(inference.operators).on_cpu
    if not count:
        return ""
    first = next(o for o in inference.operators if o.device == "cpu" and o.counts)
    return f"{count} on the CPU, first {first.node}: {first.reason}"
