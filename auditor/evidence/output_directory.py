"""OUTPUT: the runs of one cluster, the lock that one run at a time holds, and the newest run.

`latest.json` names the newest finished run. It is replaced after all other files, in one step. A
run that died leaves the old one in place.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyarrow import fs

from auditor.errors import OutputError
from auditor.evidence.newest_run import LATEST, RUN_NAME
from auditor.evidence.run_directory import Place
from auditor.evidence.table_scan import file_errors

LOCK = ".lock"
LOCK_WAIT_S = 5.0
"""How long to wait for the lock. The JVM of a killed run holds it until that JVM ends, a fraction
of a second later.
"""
LOCK_POLL_S = 0.1
"""How often the lock is tried in this time."""
TRIED_BYTES = 4_096
"""How many blanks are written to test the directory: one block. A full disk still takes an empty
file.
"""


@dataclass(frozen=True, slots=True)
class Output:
    """OUTPUT: the runs of one cluster."""

    root: Place

    @contextmanager
    def hold_lock(self) -> Iterator[int | None]:
        """Create the directory, take its lock, and write to it once: a fault shows before the run.

        Yields the descriptor of the lock. The lock ends with this process and with those that were
        given the descriptor. Only a local directory can be locked. Elsewhere (None) the scheduler
        must prevent two runs at once (deploy/). Waits at most LOCK_WAIT_S for the lock. Raises
        OutputError. If another run holds the lock, nothing in the directory is touched.
        """
        self.root.create()
        descriptor = self._lock() if isinstance(self.root.files, fs.LocalFileSystem) else None
        try:
            self._try_to_write()
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _lock(self) -> int:
        with file_errors(f"lock {self.root.uri}"):
            descriptor = os.open(f"{self.root.path}/{LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
        deadline = time.monotonic() + LOCK_WAIT_S
        while not _is_locked(descriptor):
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise OutputError(
                    f"another run is at work in {self.root.path} (it holds {LOCK}): wait for it, or"
                    " use another --output"
                )
            time.sleep(LOCK_POLL_S)
        return descriptor

    def _try_to_write(self) -> None:
        self.root.write_text(".writable", " " * TRIED_BYTES)
        self.root.remove_file(".writable")

    def run(self, run_id: str) -> Place:
        """Return the directory of a run."""
        return self.root / f"run-{run_id}"

    def start(self, run_id: str) -> Place:
        """Create the directory of a new run."""
        directory = self.run(run_id)
        with file_errors(f"write to {directory.uri}"):
            directory.files.create_dir(directory.path)
        return directory

    def latest(self) -> Place | None:
        """Return the newest finished run, or None. A latest.json that cannot be read counts as
        none.
        """
        text = self.root.read_text(LATEST)
        if text is None:
            return None
        try:
            name = json.loads(text)["run"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return self.root / name if isinstance(name, str) and RUN_NAME.fullmatch(name) else None

    def publish(self, run: Place) -> None:
        """Make `run` the newest finished one. All its other files must have been written."""
        name = run.path.rsplit("/", 1)[1]
        self.root.write_text(LATEST, json.dumps({"run": name}) + "\n")

    def prune(self, keep: int) -> list[str]:
        """Remove all but the `keep` newest finished runs (0: keep all), and dead runs older than
        these.

        Returns the names of what was removed. The newest finished run is never removed.
        """
        if keep <= 0:
            return []
        latest = self.latest()
        with file_errors(f"list {self.root.uri}"):
            infos = self.root.files.get_file_info(fs.FileSelector(self.root.path))
        names = sorted(
            i.base_name
            for i in infos
            if i.type is fs.FileType.Directory and RUN_NAME.fullmatch(i.base_name)
        )
        finished = [
            name for name in names if (self.root / name).read_text("summary.json") is not None
        ]
        if len(finished) < keep:
            return []
        oldest_kept = finished[-keep]
        old = [
            name
            for name in names
            if name < oldest_kept and (latest is None or not latest.path.endswith(f"/{name}"))
        ]
        for name in old:
            self.root.remove(name)
        return old


def _is_locked(descriptor: int) -> bool:
    """Try to lock an open file for this process. Return whether that succeeded at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
