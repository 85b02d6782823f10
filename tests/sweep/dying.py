"""A stand-in for `measure` that takes its process along."""

from __future__ import annotations

import os

from tvm_vnpu.sweep.measure import Subject
from tvm_vnpu.sweep.result import Row
from tvm_vnpu.sweep.settings import Settings


def dies_on_two_lanes(subject: Subject, settings: Settings) -> Row:
    """Die where lanes = 2, else return a row without figures."""
    del subject
    if settings["lanes"] == 2:
        os._exit(1)
    return Row({"lanes": str(settings["lanes"])}, "", None, "fine")
