"""The runs that OUTPUT holds: which there are, how each ended, and which one an argument means.

An argument RUN is a run's id, its directory's name, its path or URI, `latest`, or `latest~N`. A
path of an OUTPUT means its newest finished run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from auditor.errors import ConfigError, OutputError
from auditor.evidence.journal import JOURNAL
from auditor.evidence.newest_run import LATEST, run_name
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place, place
from auditor.model.summary import Summary
from auditor.summary.previous_run import read_summary

NAMED_MAX = 3
"""An error names at most this many of the runs of an output: the newest."""
_LATEST = re.compile(r"latest(~(\d{1,6}))?")


class RunState(StrEnum):
    """How a run ended, as far as its directory shows."""

    FINISHED = "finished"
    UNPUBLISHED = "unpublished"
    """It wrote its summary and was interrupted before latest.json named it."""
    UNFINISHED = "unfinished"
    """It is at work, or was killed."""
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in OUTPUT. `summary` is None unless it is finished or unpublished.

    `problem` says why a damaged run cannot be read. `is_latest`: latest.json names it.
    """

    directory: Place
    state: RunState
    summary: Summary | None = None
    problem: str = ""
    is_latest: bool = False

    @property
    def run_id(self) -> str:
        """The run's id."""
        return name_of(self.directory).removeprefix("run-")

    @property
    def is_over(self) -> bool:
        """Whether the run cannot be resumed: it is finished, or damaged."""
        return self.state in (RunState.FINISHED, RunState.DAMAGED)

    @property
    def began(self) -> datetime:
        """When the run began (UTC), from its id."""
        return datetime.strptime(self.run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)


def is_run_argument(text: str) -> bool:
    """Return whether an argument means a run, not a finding, a ledger or a bookie."""
    is_named = run_name(text) is not None or _LATEST.fullmatch(text) is not None
    return is_named or "/" in text or Path(text).is_dir()


def name_of(directory: Place) -> str:
    """Return the name of a run's directory."""
    return directory.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The runs in OUTPUT. Methods raise OutputError if it cannot be read."""

    output: Output

    @classmethod
    def at(cls, output: str) -> StoredRuns:
        """Return the runs in the OUTPUT with this path or URI. Raises OutputError."""
        return cls(Output(place(output)))

    def find(self, text: str | None) -> Place:
        """Return the directory of the run that an argument means; None means `latest`.

        An id and a name are looked for in OUTPUT, unless a directory here has that name. Raises
        ConfigError, which says what is there, if there is no such run. Whether the run is finished
        is not checked, except for `latest`.
        """
        back = _LATEST.fullmatch(text or "latest")
        if back is not None:
            return self._finished(int(back[2] or 0), text)
        assert text is not None, "None means latest"
        name = run_name(text)
        if name is None or Path(text).is_dir():
            return run_at(text)
        run = self.output.root / name
        if not (run.has_file("run.json") or run.has_file("summary.json")):
            raise ConfigError(f"{self.output.root.address} has no {name}: {self._what_is_there()}")
        return run

    def find_unfinished(self, text: str) -> Place:
        """Return the directory in OUTPUT of the run that an argument of --resume means.

        `latest` and `latest~N` count the runs that are not finished, the newest first. Raises
        ConfigError for a text that is not a run, or means one elsewhere.
        """
        root = self.output.root
        if (back := _LATEST.fullmatch(text)) is not None:
            latest = self.output.latest()
            runs = (_listed(run, latest) for run in reversed(self.output.runs()))
            waiting = (run.directory for run in runs if not run.is_over)
            found = next((run for n, run in enumerate(waiting) if n == int(back[2] or 0)), None)
            if found is None:
                raise ConfigError(
                    f"{text}: {root.address} has no such run that is not finished; auditor status"
                    f" {root.address} lists its runs"
                )
            return found
        name = run_name(text.rstrip("/").rpartition("/")[2])
        if name is None:
            raise ConfigError(
                f"{text!r} is not a run: give its id, such as 20260301T020000Z-1a2b3c, the name of"
                " its directory, its path, or latest"
            )
        run = root / name
        if "/" in text and place(text).path.rstrip("/") != run.path:
            raise ConfigError(f"{text} is not in --output ({root.address})")
        return run

    def before(self, run: Place) -> Place:
        """Return the newest finished run of the whole cluster that is older than `run`.

        Raises ConfigError if there is none.
        """
        for older in self._whole_runs():
            if older.path < run.path:
                return older
        raise ConfigError(
            f"{self.output.root.address} has no finished run of the whole cluster before"
            f" {name_of(run)}: {self._what_is_there()}"
        )

    def names(self) -> list[str]:
        """Return the names of the runs' directories, the newest first."""
        return [name_of(run) for run in reversed(self.output.runs())]

    def newest(self, count: int) -> list[ListedRun]:
        """Return the newest `count` runs, finished or not, the newest first."""
        latest = self.output.latest()
        runs = list(reversed(self.output.runs()))[:count]
        return [_listed(run, latest) for run in runs]

    def latest(self) -> ListedRun | None:
        """Return the run that latest.json names; None if it names none."""
        run = self.output.latest()
        return None if run is None else _listed(run, run)

    def has_damaged_latest(self) -> bool:
        """Return whether latest.json is there and names no run."""
        return self.output.latest() is None and self.output.root.read_text(LATEST) is not None

    def _finished(self, back: int, text: str | None) -> Place:
        """Return the finished run of the whole cluster that is `back` before the newest."""
        if back == 0 and (newest := self.output.latest()) is not None:
            return newest
        for number, run in enumerate(self._whole_runs() if back else ()):
            if number == back:
                return run
        address = self.output.root.address
        wanted = f"{text}: {address} has no such run" if back else f"{address} has no finished run"
        if self.has_damaged_latest():
            wanted = f"latest.json in {address} is damaged and names no run"
        raise ConfigError(f"{wanted}: {self._what_is_there()}")

    def _whole_runs(self) -> Iterator[Place]:
        """Yield the finished runs of the whole cluster, the newest, which is the latest, first."""
        latest = self.output.latest()
        if latest is None:
            return
        for run in reversed(self.output.runs()):
            if run.path == latest.path:
                yield run
            elif run.path < latest.path and not run.files_in(JOURNAL):
                summary = read_summary(run)
                if summary is not None and not summary.is_partial:
                    yield run

    def _what_is_there(self) -> str:
        """Return what OUTPUT has, and what to do, as the end of a sentence."""
        names = self.names()
        if not names:
            return (
                "no run is there; give --output DIR, AUDITOR_OUTPUT or the key output in a file,"
                " or the directory of a run"
            )
        shown = ", ".join(names[:NAMED_MAX])
        more = f" and {len(names) - NAMED_MAX} older" if len(names) > NAMED_MAX else ""
        return f"it has {shown}{more}; auditor status lists them"


def _listed(run: Place, latest: Place | None) -> ListedRun:
    """Return a run with its state.

    Before another run is published, the one that latest.json names has no journal any more. A run
    of named ledgers is never published.
    """
    is_latest = latest is not None and latest.path == run.path
    try:
        summary = read_summary(run)
        if summary is None:
            return ListedRun(run, RunState.UNFINISHED, is_latest=is_latest)
        can_be_open = not (is_latest or summary.is_partial)
        is_open = can_be_open and bool(run.files_in(JOURNAL))
    except OutputError as error:
        return ListedRun(run, RunState.DAMAGED, None, str(error), is_latest)
    state = RunState.UNPUBLISHED if is_open else RunState.FINISHED
    return ListedRun(run, state, summary, "", is_latest)


def run_at(text: str) -> Place:
    """Return the directory of the run at a path or URI; of an OUTPUT its newest finished run.

    Whether there is a run is not checked.
    """
    directory = place(text)
    if directory.has_file("summary.json") or not directory.has_file(LATEST):
        return directory
    return StoredRuns(Output(directory)).find(None)
