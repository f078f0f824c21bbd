"""The journal of a run: which of its stages are written whole, so that a run that was killed goes on behind the last of them.

One file a stage, `journal/000007.json`, written in one step once the stage's table is there. It names the files that the stage
wrote: whatever else lies among the tables was left by a stage that was cut down, and is removed before the run goes on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from auditor.errors import OutputError
from auditor.evidence.run_directory import Place

JOURNAL = "journal"
LISTED = "listing"
"""The first stage of every run."""
TABLES = ("evidence", "steps", "verdicts")
"""Directories of a run that its stages write."""

STAGES_MAX = 1_000_000
"""Stages of one run: names of entries sort by their numbers. 1,000 shards have some ten thousand."""

Told = Mapping[str, Any]
"""What a stage hands to the rest of the run beside its table: JSON, given back when the run goes on."""
PROBLEMS = "problems"
"""Under this key of `Told`: sentences on what was odd but did not stand in the stage's way."""

Args = ParamSpec("Args")


@dataclass(slots=True)
class Journal:
    """What is written of one run. `seconds` tells how long each stage for people took so far, `reads` what the driver read
    from ZooKeeper; `began_with` and `began_with_reads` what they told when the run was cut down."""

    run: Place
    seconds: Callable[[], Mapping[str, float]] = dict
    began_with: Mapping[str, float] = field(default_factory=dict)
    reads: Callable[[], Mapping[str, int]] = dict
    began_with_reads: Mapping[str, int] = field(default_factory=dict)
    _told: dict[str, Told] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)

    @classmethod
    def reopened(cls, run: Place) -> Journal:
        """The journal of a run that was cut down; what its last stage left half written is removed. Raises OutputError."""
        journal = cls(run)
        for entry in entries(run):
            journal._told[entry["stage"]] = entry["told"]
            journal._files.update(entry["files"])
            journal.began_with, journal.began_with_reads = entry["seconds"], entry["reads"]
        if lost := journal._files - run.files_in(*TABLES):
            raise OutputError(
                f"{run.uri}: {min(lost)} is gone, which the journal names: that run cannot go on, start a new one"
            )
        for name in run.files_in(*TABLES) - journal._files:
            if not _is_checksum_of(name, journal._files):
                run.remove_file(name)
        return journal

    def has(self, stage: str) -> bool:
        """Whether the stage is written whole."""
        return stage in self._told

    @property
    def has_any(self) -> bool:
        """Whether any stage is written whole."""
        return bool(self._told)

    @property
    def problems(self) -> list[str]:
        """What was odd in the stages so far, also in those that were done before the run was cut down."""
        return [problem for told in self._told.values() for problem in told.get(PROBLEMS, ())]

    def once(self, stage: str, work: Callable[Args, Told | None], *args: Args.args, **options: Args.kwargs) -> Told:
        """Do the stage, unless it is written already; either way what it told. What `work` raises is raised, and nothing
        counts as done. Costs listing the run's files."""
        if stage not in self._told:
            told = work(*args, **options) or {}
            new = self.run.files_in(*TABLES) - self._files
            entry = {"stage": stage, "told": told, "files": sorted(new), "seconds": self.seconds(), "reads": self.reads()}
            (self.run / JOURNAL).create()
            name = _entry_name(len(self._told)).removeprefix(f"{JOURNAL}/")
            (self.run / JOURNAL).write_text(name, json.dumps(entry) + "\n")
            self._told[stage], self._files = told, self._files | new
        return self._told[stage]


def entries(run: Place) -> list[dict[str, Any]]:
    """What stages wrote down, in their order. Raises OutputError where one is missing or damaged."""
    names = sorted(name for name in run.files_in(JOURNAL) if _ENTRY.fullmatch(name))
    if names != [_entry_name(number) for number in range(len(names))]:
        raise OutputError(f"{run.uri}/{JOURNAL} has a gap: that run cannot go on, start a new one")
    return [_entry(run, name) for name in names]


def forget(run: Place) -> None:
    """Remove the journal of a run that is over, the newest entry first: whatever is left is the journal of its beginning."""
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
        return {key: entry[key] for key in ("stage", "told", "files", "seconds", "reads")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{run.uri}/{name} is damaged ({error}): that run cannot go on, start a new one") from None


def _is_checksum_of(name: str, files: set[str]) -> bool:
    """Whether it is the file that Hadoop keeps beside one of `files`."""
    folder, _, file = name.rpartition("/")
    return file.startswith(".") and file.endswith(".crc") and f"{folder}/{file[1:-4]}" in files
