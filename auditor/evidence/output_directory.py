"""OUTPUT: the runs of one cluster, the lock that one run at a time holds, and the newest run.

`latest.json` names the newest finished run. It is replaced after all other files, in one step. A
run that died leaves the old one in place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyarrow import fs

from auditor.evidence.newest_run import LATEST, RUN_NAME
from auditor.evidence.output_lock import HeldLock, hold_output_lock
from auditor.evidence.run_directory import Place, make_directory
from auditor.evidence.table_scan import file_errors

TRIED_BYTES = 4_096
"""A test of the directory writes this many blanks, one block: a full disk still takes an empty
file."""


@dataclass(frozen=True, slots=True)
class Output:
    """OUTPUT: the runs of one cluster."""

    root: Place

    @contextmanager
    def hold_lock(self, check: Callable[[], None] = lambda: None) -> Iterator[HeldLock]:
        """Create the directory, hold its lock, and write to it once: a fault shows before the run.

        While the lock is waited for, `check` is called repeatedly; an exception from it ends the
        wait. Raises OutputError. If another run holds the lock, nothing in the directory is
        changed.
        """
        self.root.create()
        with hold_output_lock(self.root, check) as lock:
            self._try_to_write()
            yield lock

    def try_out(self, check: Callable[[], None] = lambda: None) -> str | None:
        """Try whether a run could use the directory. Return what its lock does not protect from, or
        None.

        Raises OutputError as a run would. A missing local directory is not created.
        """
        path = Path(self.root.path)
        with file_errors(f"write to {self.root.uri}"):
            if isinstance(self.root.files, fs.LocalFileSystem) and not path.exists():
                above = next(parent for parent in path.absolute().parents if parent.exists())
                with TemporaryDirectory(prefix=".writable-", dir=above) as tried:
                    Path(tried, "tried").write_text(" " * TRIED_BYTES)
                return None
        with self.hold_lock(check) as lock:
            return lock.problem

    def _try_to_write(self) -> None:
        self.root.write_text(".writable", " " * TRIED_BYTES)
        self.root.remove_file(".writable")

    def run(self, run_id: str) -> Place:
        """Return the directory of a run."""
        return self.root / f"run-{run_id}"

    def start(self, run_id: str) -> Place:
        """Create the directory of a new run."""
        directory = self.run(run_id)
        make_directory(directory)
        return directory

    def latest(self) -> Place | None:
        """Return the newest finished run, or None. An unreadable latest.json counts as none."""
        text = self.root.read_text(LATEST)
        if text is None:
            return None
        try:
            name = json.loads(text)["run"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return self.root / name if isinstance(name, str) and RUN_NAME.fullmatch(name) else None

    def publish(self, run: Place, lock: HeldLock | None = None) -> None:
        """Make `run` the newest finished run. All its other files must have been written.

        `lock` is the lock that the run holds; None if the caller needs none. Raises OutputError if
        the lock was lost: another run may have been published meanwhile.
        """
        name = run.path.rsplit("/", 1)[1]
        text = json.dumps({"run": name}) + "\n"
        if lock is None:
            self.root.write_text(LATEST, text)
        else:
            lock.write_latest(text)

    def runs(self) -> list[Place]:
        """Return the directories of all runs, finished or not, oldest first. None in a directory
        that is not there.
        """
        return [self.root / name for name in self._run_names()]

    def _run_names(self) -> list[str]:
        with file_errors(f"list {self.root.uri}"):
            infos = self.root.files.get_file_info(
                fs.FileSelector(self.root.path, allow_not_found=True)
            )
        return sorted(
            i.base_name
            for i in infos
            if i.type is fs.FileType.Directory and RUN_NAME.fullmatch(i.base_name)
        )

    def prune(self, keep: int) -> list[str]:
        """Remove all but the `keep` newest finished runs (0: keep all), and older dead runs.

        Returns the names of what was removed. The newest finished run is never removed.
        """
        if keep <= 0:
            return []
        latest = self.latest()
        names = self._run_names()
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
