"""Which arithmetic a module asks for: the profile, and TVM's requantize configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import tvm
from tvm import relay

from codegen.profiles import Profile
from codegen.profiles import profile as find_profile
from runtime_sim.errors import VnpuError
from runtime_sim.isa.fields import Rounding
from tvm_vnpu.frontend.errors import Unsupported

RELAY = "relay"
_MODES = {"UPWARD": Rounding.SINGLE_UP, "TONEAREST": Rounding.TONEAREST}
_NONE = "None"


@dataclass(frozen=True, slots=True)
class Semantics:
    """A profile, and what `qnn.requantize_config` says where an operator says nothing itself."""

    profile: Profile
    rounding: str = "UPWARD"
    compute_dtype: str = "int64"

    @property
    def is_relay(self) -> bool:
        """Return whether TVM's own int64 lowering is the model to equal."""
        return self.profile.name == RELAY

    def of(self, attrs: tvm.ir.Attrs | None = None) -> Profile:
        """Return the profile of a requantisation with these attributes, or with none.

        Raises Unsupported for a compute type whose arithmetic the NPU does not have.
        """
        if not self.is_relay:
            return self.profile
        rounding, compute = self.rounding, self.compute_dtype
        if attrs is not None:
            rounding = _own(str(attrs.rounding), rounding)
            compute = _own(str(attrs.compute_dtype), compute)
        if compute != "int64":
            raise Unsupported(
                "requantisation must compute in int64: in float TVM adds the zero point before"
                " it rounds",
                seen=compute,
            )
        return replace(self.profile, rounding=_MODES[rounding])

    def to_text(self) -> str:
        """Return the semantics as one attribute."""
        return f"{self.profile.name} {self.rounding} {self.compute_dtype}"


def from_text(text: str) -> Semantics:
    """Return the semantics that `to_text` wrote."""
    name, rounding, compute = text.split()
    return Semantics(find_profile(name), rounding, compute)


def current(rounding: str | None = None) -> Semantics:
    """Return the semantics in force: `rounding` names a profile, by default TVM's own.

    The requantize configuration is read from `relay.qnn.op.requantize_config`; without one TVM
    itself computes in int64, or in float32 for an llvm target with sse4.1: here it is int64.
    Raises ProfileError for an unknown profile.
    """
    config = relay.qnn.op.current_requantize_config()
    mode = str(config.rounding) or "UPWARD"
    if mode not in _MODES:
        raise VnpuError("unknown rounding in the requantize configuration", seen=mode)
    compute = str(config.compute_dtype) or "int64"
    return Semantics(find_profile(rounding or RELAY), mode, compute)


def _own(value: str, default: str) -> str:
    return default if value == _NONE else value
