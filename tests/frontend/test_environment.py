"""Two TVMs in one environment are refused, and a door without its TVM says so."""

from __future__ import annotations

import pytest

from tvm_vnpu.frontend import environment
from tvm_vnpu.frontend.environment import require_door


def _installed(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    known = {environment.DISTRIBUTIONS[door]: version for door, version in versions.items()}
    monkeypatch.setattr(environment, "_version", lambda package: known.get(package, ""))


@pytest.mark.parametrize("door", ["relax", "relay"])
def test_both_extras_are_refused(monkeypatch: pytest.MonkeyPatch, door: str) -> None:
    _installed(monkeypatch, relax="0.27.0", relay="0.19.0.12")
    with pytest.raises(environment.TvmEnvironmentError) as caught:
        require_door(door)
    assert "are installed together, and both are called `tvm`" in str(caught.value)
    assert f"install tvm-vnpu[{door}] alone there" in str(caught.value)


def test_the_other_doors_tvm_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, relax="0.27.0")
    require_door("relax")
    with pytest.raises(environment.TvmEnvironmentError, match="needs xtc-tvm-python-bindings"):
        require_door("relay")
