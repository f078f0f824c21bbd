"""The journal of a run: which of its stages are complete. A resumed run starts after the last one.

Each stage has one file, such as `journal/000007.json`, written in one step after the stage's table.
The file names the files that the stage wrote, with their sizes. Any other file among the tables was
left by an interrupted stage. It is removed when the run is resumed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from auditor.errors import OutputError
from auditor.evidence.local_files import is_table_file
from auditor.evidence.run_directory import Place

JOURNAL = "journal"
REFERENCES, LISTED = "references", "listing"
"""The first two stages of every run."""
TABLES = ("evidence", "steps", "verdicts")
"""Directories of a run that its stages write."""

STAGES_MAX = 1_000_000
"""A run has at most this many stages, because the six digits of a file name must sort by number.

A run of 1,000 shards has some ten thousand stages."""

StageResult = Mapping[str, Any]
"""What a stage returns to the run beside its table. It is JSON, and a resumed run reads it back."""
PROBLEMS = "problems"
"""The key of `StageResult` for sentences on problems that did not stop the stage."""

Args = ParamSpec("Args")


@dataclass(slots=True)
class Journal:
    """The completed stages of one run.

    `seconds` returns how long each stage of the summary's `duration_s` took so far. `reads` returns
    what the driver read from ZooKeeper. `began_with` and `began_with_reads` are the last values of
    these two that an interrupted run recorded.
    """

    run: Place
    seconds: Callable[[], Mapping[str, float]] = dict
    began_with: Mapping[str, float] = field(default_factory=dict)
    reads: Callable[[], Mapping[str, int]] = dict
    began_with_reads: Mapping[str, int] = field(default_factory=dict)
    apart: str = ""
    """The table to which another thread writes for a later stage; "": none. Its new files belong to
    no stage that ends meanwhile. One thread alone calls `run_once`."""
    _results: dict[str, StageResult] = field(default_factory=dict)
    _files: dict[str, int] = field(default_factory=dict)
    """The size of each file that a stage wrote, in bytes."""

    @classmethod
    def read(cls, run: Place) -> Journal:
        """Return the journal as it is stored. Raises OutputError when it is damaged."""
        journal = cls(run)
        for entry in entries(run):
            journal._results[entry["stage"]] = entry["result"]
            journal._files.update(entry["files"])
            journal.began_with, journal.began_with_reads = entry["seconds"], entry["reads"]
        return journal

    @classmethod
    def reopen(cls, run: Place) -> Journal:
        """Return the journal of an interrupted run, and remove the files of its unfinished stage.

        Raises OutputError if the journal is damaged, or if a file that it names is missing or has
        another size.
        """
        journal = cls.read(run)
        sizes = run.file_sizes(*TABLES)
        if lost := journal.lost_in(sizes):
            raise OutputError(f"{run.uri}: {lost}: that run cannot be resumed, start a new one")
        for name in sizes.keys() - journal._files.keys():
            if not _is_checksum_of(name, journal._files.keys()):
                run.remove_file(name)
        return journal

    def has(self, stage: str) -> bool:
        """Return whether the stage is complete."""
        return stage in self._results

    @property
    def problems(self) -> list[str]:
        """The problems of all stages so far, including those before an interruption."""
        return [
            problem for result in self._results.values() for problem in result.get(PROBLEMS, ())
        ]

    def run_once(
        self,
        stage: str,
        work: Callable[Args, StageResult | None],
        *args: Args.args,
        **options: Args.kwargs,
    ) -> StageResult:
        """Run the stage unless it is complete, and return its result.

        An exception from `work` passes through, and the stage stays incomplete. Running a stage
        costs one listing of the run's files.
        """
        if stage not in self._results:
            result = work(*args, **options) or {}
            sizes = self.run.file_sizes(*TABLES)
            new = {
                name: sizes[name]
                for name in sorted(sizes.keys() - self._files.keys())
                if not self.apart or not name.startswith(f"{self.apart}/")
            }
            entry = {
                "stage": stage,
                "result": result,
                "files": new,
                "seconds": self.seconds(),
                "reads": self.reads(),
            }
            (self.run / JOURNAL).create()
            name = _entry_name(len(self._results)).removeprefix(f"{JOURNAL}/")
            (self.run / JOURNAL).write_text(name, json.dumps(entry) + "\n")
            self._results[stage], self._files = result, self._files | new
        return self._results[stage]

    def lost_in(self, sizes: Mapping[str, int]) -> str:
        """Return which file of a table is gone or has another size, as a sentence; "" if none is.

        `sizes` has the bytes of each file that is there.
        """
        lost = [
            name
            for name, size in self._files.items()
            if is_table_file(name) and sizes.get(name) != size
        ]
        if not lost:
            return ""
        name = min(lost)
        more = f", and {len(lost) - 1} more files are not as written" if len(lost) > 1 else ""
        if name not in sizes:
            return f"{name} is gone, which the journal names{more}"
        return f"{name} has {sizes[name]} bytes, and the journal names {self._files[name]}{more}"

    def lost(self) -> str:
        """Return which part of what the stages wrote is lost, as a sentence; "" if none is.

        Costs one listing of the run's files. Raises OutputError.
        """
        lost = self.lost_in(self.run.file_sizes(*TABLES))
        return lost and (
            f"{self.run.address} has lost a part of what this run stored: {lost}; find out what"
            " removes files from --output, and start a new run"
        )


def entries(run: Place) -> list[dict[str, Any]]:
    """Return the journal's entries in order. Raises OutputError when one is missing or damaged."""
    names = sorted(name for name in run.files_in(JOURNAL) if _ENTRY.fullmatch(name))
    if names != [_entry_name(number) for number in range(len(names))]:
        raise OutputError(
            f"{run.uri}/{JOURNAL} has a gap: a part of what the run stored is lost; start a new run"
        )
    return [_entry(run, name) for name in names]


def forget(run: Place) -> None:
    """Remove the journal of a finished run.

    The newest entry goes first: an interruption leaves a valid journal of the first stages.
    """
    for name in sorted(run.files_in(JOURNAL), reverse=True):
        run.remove_file(name)
    run.remove(JOURNAL)


_ENTRY = re.compile(rf"{JOURNAL}/\d{{6}}\.json")


def _entry_name(number: int) -> str:
    assert number < STAGES_MAX, f"a run of more than {STAGES_MAX} stages"
    return f"{JOURNAL}/{number:06}.json"


def _entry(run: Place, name: str) -> dict[str, Any]:
    try:
        entry = json.loads(run.read_text(name) or "")
        if not all(isinstance(size, int) for size in entry["files"].values()):
            raise TypeError("a size is no number")
        return {key: entry[key] for key in ("stage", "result", "files", "seconds", "reads")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OutputError(
            f"{run.uri}/{name} is damaged ({error}): that run cannot be resumed, start a new one"
        ) from None


def _is_checksum_of(name: str, files: Set[str]) -> bool:
    """Return whether `name` is the checksum file that Hadoop keeps beside one of `files`."""
    folder, _, file = name.rpartition("/")
    return file.startswith(".") and file.endswith(".crc") and f"{folder}/{file[1:-4]}" in files
