"""The global function that compiled regions call."""

from __future__ import annotations

DRIVER_NAME = "vnpu.driver.run"
