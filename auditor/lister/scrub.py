"""Control the scrub process from the lister: start it again when it ends, read its report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO, cast

from structlog.stdlib import BoundLogger

from auditor.errors import ConfigError
from auditor.lister.bookie_configuration import BookieConfiguration
from auditor.lister.reader_process import encode_message
from auditor.lister.scrub_process import read_report
from auditor.model.identity import BookieId
from auditor.model.scrub import ScrubReport

COMMAND = (sys.executable, "-m", "auditor.lister.scrub_process")
RESTART_S = 60.0
"""Pause before a process that ended is started again."""
LINE_BYTES_MAX = 4_096
"""Longest line of the process that is logged."""


@dataclass(frozen=True, slots=True)
class ScrubTerms:
    """What to scrub, how fast, and where to keep the state.

    At most one pass begins in `every_s` seconds. `links` is an empty directory of our own.
    """

    bookie_id: BookieId
    configured: BookieConfiguration
    is_db: bool
    directory: Path
    links: Path
    bytes_per_second: int
    every_s: float

    @property
    def key(self) -> list[str]:
        """What the state belongs to: the bookie and its directories."""
        configured = self.configured
        paths = (*configured.ledger_directories, *configured.index_directories)
        return [self.bookie_id, *map(str, paths)]

    def encode(self) -> bytes:
        """Return the message to the process."""
        return encode_message(
            {
                "key": self.key,
                "ledgers": [str(path) for path in self.configured.ledger_directories],
                "indexes": [str(path) for path in self.configured.index_directories],
                "is_db": self.is_db,
                "directory": str(self.directory),
                "links": str(self.links),
                "bytes_per_second": self.bytes_per_second,
                "every_s": self.every_s,
            }
        )


def check_directory(directory: Path, configured: BookieConfiguration) -> None:
    """Create the scrub's directory. Raises ConfigError if that fails or it is one of the
    bookie's.
    """
    try:
        for own in (*configured.ledger_directories, *configured.index_directories):
            if directory.resolve().is_relative_to(own.resolve()):
                raise ConfigError(f"scrub is {directory}, which is in the bookie's directory {own}")
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"scrub {directory} cannot be created: {error.strerror}") from None


class Scrub:
    """A scrub process, kept alive by a thread from `start` to `stop`."""

    def __init__(
        self, terms: ScrubTerms, logger: BoundLogger, command: Sequence[str] = COMMAND
    ) -> None:
        self._terms, self._logger, self._command = terms, logger, list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = Event()
        self._thread = Thread(target=self._run, name="lister-scrub", daemon=True)

    def report(self) -> ScrubReport | None:
        """Return what the scrub reports; None before its first report. Raises OSError."""
        return read_report(self._terms.directory, self._terms.key)

    def start(self) -> None:
        """Start the process, and a thread that starts it again whenever it ends."""
        self._thread.start()

    def stop(self) -> None:
        """End the process. It loses at most what it did since it last wrote its state."""
        self._ended.set()
        process = self._process
        if process is not None:
            process.kill()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                why = self._run_once()
            except OSError as error:
                why = f"it did not start: {error}"
            if not self._ended.is_set():
                self._logger.warning("lister_scrub_ended", reason=why)
            self._ended.wait(RESTART_S)

    def _run_once(self) -> str:
        """Run the process until it ends, log what it says, and return how it ended."""
        self._terms.links.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(  # noqa: S603
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._process = process
        if self._ended.is_set():
            process.kill()
        with process:
            stdin = cast(BinaryIO, process.stdin)
            try:
                stdin.write(self._terms.encode())
                stdin.flush()
            except BrokenPipeError:
                pass
            for line in iter(lambda: cast(BinaryIO, process.stdout).readline(LINE_BYTES_MAX), b""):
                self._logger.warning(
                    "lister_scrub_problem", reason=line.decode("utf-8", "replace").strip()
                )
        return f"exit code {process.returncode}"
