"""The journal of a run: which of its stages are written whole, so that a run that was killed goes on behind the last of them.

One file a stage, `journal/000007.json`, written in one step once the stage's table is there. It names the files that the stage
wrote: whatever else lies among the tables was left by a stage that was cut down, and is removed before the run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from auditor.errors import OutputError
from auditor.report.run_directory import Place

JOURNAL = "journal"
TABLES = ("evidence", "steps", "verdicts")
"""Directories of a run that its stages write."""

Told = Mapping[str, Any]
"""What a stage hands to the rest of the run beside its table: JSON, given back when the run goes on."""

Args = ParamSpec("Args")


@dataclass(slots=True)
class Journal:
    """What is written of one run. `seconds` tells how long each stage for people took so far; `began_with` what it told when
    the run was cut down."""

    run: Place
    seconds: Callable[[], Mapping[str, float]] = dict
    began_with: Mapping[str, float] = field(default_factory=dict)
    _told: dict[str, Told] = field(default_factory=dict)
    _files: set[str] = field(default_factory=set)

    @classmethod
    def reopened(cls, run: Place) -> Journal:
        """The journal of a run that was cut down; what its last stage left half written is removed. Raises OutputError."""
        journal = cls(run)
        for name in sorted(one for one in run.files_in(JOURNAL) if one.endswith(".json")):
            entry = _entry(run, name)
            journal._told[entry["stage"]] = entry["told"]
            journal._files.update(entry["files"])
            journal.began_with = entry["seconds"]
        for name in run.files_in(*TABLES) - journal._files:
            if not _is_checksum_of(name, journal._files):
                run.remove_file(name)
        return journal

    @property
    def has_any(self) -> bool:
        """Whether any stage is written whole."""
        return bool(self._told)

    def once(self, stage: str, work: Callable[Args, Told | None], *args: Args.args, **options: Args.kwargs) -> Told:
        """Do the stage, unless it is written already; either way what it told. What `work` raises is raised, and nothing
        counts as done. Costs listing the run's files."""
        if stage not in self._told:
            told = work(*args, **options) or {}
            new = self.run.files_in(*TABLES) - self._files
            entry = {"stage": stage, "told": told, "files": sorted(new), "seconds": self.seconds()}
            (self.run / JOURNAL).create()
            (self.run / JOURNAL).write_text(f"{len(self._told):06}.json", json.dumps(entry) + "\n")
            self._told[stage], self._files = told, self._files | new
        return self._told[stage]


def _entry(run: Place, name: str) -> dict[str, Any]:
    try:
        entry = json.loads(run.read_text(name) or "")
        return {key: entry[key] for key in ("stage", "told", "files", "seconds")}
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{run.uri}/{name} is damaged ({error}): that run cannot go on, start a new one") from None


def _is_checksum_of(name: str, files: set[str]) -> bool:
    """Whether it is the file that Hadoop keeps beside one of `files`."""
    folder, _, file = name.rpartition("/")
    return file.startswith(".") and file.endswith(".crc") and f"{folder}/{file[1:-4]}" in files
