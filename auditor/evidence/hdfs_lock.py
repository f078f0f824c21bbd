"""A lock in HDFS: a file that its holder keeps open for writing.

HDFS has one writer a file, and the name node ends the write of a client that has not been heard of
for a minute. Hadoop's own balancer keeps a second one away by the same means.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from auditor.errors import OutputError
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import file_errors

LAPSE_S = 60.0
"""How long the name node keeps a file for a writer that has died (its soft limit of a lease)."""
WAIT_S = 75.0
"""How long to wait for the lock of another run: longer than that of a run that has died."""
POLL_S = 2.0
"""How often the lock is tried in this time."""


@contextmanager
def hold_hdfs_lock(root: Place, lock: str, check: Callable[[], None]) -> Iterator[None]:
    """Keep the lock file of a directory open. Raises OutputError if another run has it for WAIT_S.

    The lock ends with this process, LAPSE_S later if it was killed.
    """
    client = root.files.handler.fs.client
    path = f"{root.path}/{lock}"
    writer = _open(client, path, root, check)
    try:
        with file_errors(f"write {root.uri}/{lock}"):
            writer.write(f"{socket.gethostname()}\n".encode())
            writer.hsync()
        yield
    finally:
        with suppress(OSError, RuntimeError):
            writer.close()


def _open(client: Any, path: str, root: Place, check: Callable[[], None]) -> Any:
    """Return the lock file, opened for writing. Raises OutputError, and what `check` raises."""
    deadline = time.monotonic() + WAIT_S
    while True:
        with file_errors(f"lock {root.uri}"):
            writer = _open_unless_held(client, path)
        if writer is not None:
            return writer
        if time.monotonic() > deadline:
            raise OutputError(
                f"another run is at work in {root.uri} (it keeps {path} open): wait for it, or use"
                " another --output"
            )
        check()
        time.sleep(POLL_S)


def _open_unless_held(client: Any, path: str) -> Any:
    """Return the lock file, opened for writing; None where another writer has it open."""
    from auditor.evidence.hdfs_files import options_of_new_file

    try:
        try:
            return client.append(path)
        except FileNotFoundError:
            return client.create(path, write_options=options_of_new_file(overwrite=False))
    except FileExistsError:
        return None
    except (OSError, RuntimeError) as error:
        if "RecoveryInProgress" in str(error) or "recovery" in str(error):
            return None  # the write of a client that died is being ended
        raise OSError(str(error)) from error
