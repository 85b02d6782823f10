"""Refuse to mix the two TVMs: both are imported as `tvm`, and a process has room for one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from runtime_sim.errors import VnpuError

DISTRIBUTIONS = MappingProxyType({"relax": "apache-tvm", "relay": "xtc-tvm-python-bindings"})
"""Door -> the distribution that brings its TVM."""


class TvmEnvironmentError(VnpuError):
    """The TVM of this environment is not the one that a front end needs."""


def require_door(door: str) -> None:
    """Raise TvmEnvironmentError unless the environment has `door`'s TVM and no other.

    An environment with a TVM of another origin (a build from source) passes: importing it tells.
    """
    installed = {name: _version(package) for name, package in DISTRIBUTIONS.items()}
    (other,) = set(DISTRIBUTIONS) - {door}
    package, rival = DISTRIBUTIONS[door], DISTRIBUTIONS[other]
    if installed[door] and installed[other]:
        raise TvmEnvironmentError(
            f"{package} and {rival} are installed together, and both are called `tvm`",
            seen=f"{package} {installed[door]}, {rival} {installed[other]}",
            limit="one of them in an environment",
            fix=f"make a new environment and install tvm-vnpu[{door}] alone there",
        )
    if installed[other]:
        raise TvmEnvironmentError(
            f"tvm_vnpu.{door} needs {package}", seen=f"{rival} {installed[other]}",
            fix=f"use tvm_vnpu.{other} here, or an environment with tvm-vnpu[{door}]",
        )  # fmt: skip


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
