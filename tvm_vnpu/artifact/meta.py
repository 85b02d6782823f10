"""meta.json: the table of contents of an artefact folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runtime_sim import npu as configurations
from runtime_sim.errors import VnpuError
from runtime_sim.isa.table import ISA_VERSION
from runtime_sim.npu import NpuConfig
from tvm_vnpu.artifact.records import RegionRecord
from tvm_vnpu.artifact.spec import TensorSpec
from tvm_vnpu.report.placement import Placement

FORMAT = 1
META = "meta.json"


class ArtifactError(VnpuError):
    """A folder that is no artefact, or one that this version cannot use."""


@dataclass(frozen=True, slots=True)
class Source:
    """The model that was compiled: its file name, `float` or `quantized`, the pinned shapes.

    `sha256` is that of the copy in the folder.
    """

    file: str
    kind: str
    sha256: str
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Meta:
    """All of meta.json. `calibrated` is False where the ranges are placeholders."""

    source: Source
    npu: NpuConfig
    profile: str
    calibrated: bool
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    regions: tuple[RegionRecord, ...]
    operators: tuple[Placement, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format": FORMAT,
            "isa_version": ISA_VERSION,
            "source": asdict(self.source),
            "npu": asdict(self.npu),
            "npu_digest": self.npu.digest(),
            "profile": self.profile,
            "calibrated": self.calibrated,
            "inputs": [spec.to_dict() for spec in self.inputs],
            "outputs": [spec.to_dict() for spec in self.outputs],
            "regions": [region.to_dict() for region in self.regions],
            "operators": [asdict(operator) for operator in self.operators],
        }

    def write(self, folder: Path) -> None:
        """Write meta.json into a folder."""
        text = json.dumps(self.to_dict(), indent=1)
        (folder / META).write_text(text + "\n", encoding="utf-8")


def read_meta(folder: Path) -> Meta:
    """Read meta.json of an artefact folder.

    Raises ArtifactError for a folder that is missing or no artefact, for a damaged table and for
    another format or ISA version.
    """
    if not folder.is_dir():
        what = "the artefact is not a folder" if folder.exists() else "no such artefact folder"
        raise ArtifactError(what, seen=folder, fix="make one with `vnpu compile MODEL -o DIR`")
    try:
        table = json.loads((folder / META).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(
            "the folder is no artefact",
            seen=f"no {META} in {folder}",
            fix="make one with `vnpu compile MODEL -o DIR`",
        ) from error
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from error
    _check_versions(folder, table)
    try:
        return _from_dict(table)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> ArtifactError:
    return ArtifactError(
        f"cannot read {folder / META}",
        seen=f"{type(error).__name__}: {error}".splitlines()[0],
        fix="compile the model again",
    )


def _check_versions(folder: Path, table: object) -> None:
    found = table if isinstance(table, dict) else {}
    for key, wanted, what in (
        ("format", FORMAT, "format"),
        ("isa_version", ISA_VERSION, "vNPU ISA version"),
    ):
        if found.get(key) != wanted:
            raise ArtifactError(
                f"artefact {folder} has another {what}",
                seen=found.get(key, "none"),
                limit=wanted,
                fix="compile the model again with this version",
            )


def _from_dict(table: Mapping[str, Any]) -> Meta:
    source = table["source"]
    shapes = {name: tuple(shape) for name, shape in source["shapes"].items()}
    return Meta(
        source=Source(source["file"], source["kind"], source["sha256"], shapes),
        npu=configurations.from_dict(table["npu"], "artefact"),
        profile=table["profile"],
        calibrated=bool(table["calibrated"]),
        inputs=tuple(TensorSpec.from_dict(entry) for entry in table["inputs"]),
        outputs=tuple(TensorSpec.from_dict(entry) for entry in table["outputs"]),
        regions=tuple(RegionRecord.from_dict(entry) for entry in table["regions"]),
        operators=tuple(Placement(**entry) for entry in table["operators"]),
    )
