"""How a worker process begins; a module of its own, so that nothing heavy is imported before."""

from __future__ import annotations

import signal


def start_worker() -> None:
    """Let an interrupt end the process at once: the parent reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
