"""Collect this folder only where the installed TVM has Relay."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from tvm_vnpu.frontend.environment import DISTRIBUTIONS


def _has_relay() -> bool:
    try:
        return bool(version(DISTRIBUTIONS["relay"]))
    except PackageNotFoundError:
        return False


collect_ignore_glob = [] if _has_relay() else ["test_*.py"]
