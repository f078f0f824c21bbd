"""Whether a process that a test started has really ended."""

from __future__ import annotations

import time
from pathlib import Path

GONE_WITHIN_S = 30.0
"""How long a process may take to end once it must, in seconds."""
POLL_S = 0.05


def alive(pid: int) -> bool:
    """Return whether the process runs. One that has ended and waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def gone(pid: int) -> bool:
    """Return True once the process has ended; False if it still runs after GONE_WITHIN_S."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline:
        if not alive(pid):
            return True
        time.sleep(POLL_S)
    return False
