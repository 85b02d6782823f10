"""The static verifier: proves a stream safe on a configuration before anything runs."""

from __future__ import annotations

from runtime_sim.verify.errors import VerifyError
from runtime_sim.verify.verifier import STREAM_RULES, Report, Verifier, verify

__all__ = ["STREAM_RULES", "Report", "Verifier", "VerifyError", "verify"]
