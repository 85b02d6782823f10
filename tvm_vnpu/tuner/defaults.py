"""How a run goes where nobody says otherwise; imports nothing, for the command's help."""

from __future__ import annotations

TRIALS = 64
"""Points that are tried for each task."""
BATCH = 16
"""Points that are proposed at once."""
MAX_TRIALS = 100_000
"""The most trials of a task, and the largest batch."""
