"""Which process is behind a connection, and what it belongs to, for tests that end or stop one
while it works.
"""

from __future__ import annotations

import os
from pathlib import Path

ESTABLISHED = "01"


def of_connection(local_port: int) -> int:
    """Return the process that has a TCP connection from this loopback port. Raises LookupError if
    there is none, or no longer.
    """
    inode = _inode(local_port)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _has(entry, f"socket:[{inode}]"):
            return int(entry.name)
    raise LookupError(f"no process has the connection from port {local_port}")


def spark_worker_of(local_port: int) -> int:
    """Return Spark's Python worker with this connection, never the process of the tests."""
    pid = of_connection(local_port)
    assert pid != os.getpid() and "worker_daemon" in command(pid), command(pid)
    return pid


def parent(pid: int) -> int | None:
    """Return the process that started this one, None if this one has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def command(pid: int) -> str:
    """Return its command line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def _inode(local_port: int) -> str:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{local_port:04X}") and fields[3] == ESTABLISHED:
            return fields[9]
    raise LookupError(f"no connection from port {local_port}")


def _has(process: Path, target: str) -> bool:
    try:
        return any(os.readlink(link) == target for link in (process / "fd").iterdir())
    except OSError:
        return False  # it ended, or belongs to another user
