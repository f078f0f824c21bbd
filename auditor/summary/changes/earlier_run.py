"""Read the findings of the newest finished run, with which the next run's findings are compared.

A run passes on the findings of earlier runs that it could not check again, in a separate file. A
finding thereby keeps the time when it was first seen, even if a run in between could not check it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from auditor.errors import OutputError
from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.model.cluster import ClusterFacts
from auditor.model.finding import Family, Kind
from auditor.model.finding_record import FindingHistory, FindingRecord
from auditor.model.summary import Summary
from auditor.summary.about import About
from auditor.summary.changes.compared_finding import ComparedFinding
from auditor.summary.changes.judged_runs import terms_json
from auditor.summary.changes.rechecks import Judged, Row, setting_of
from auditor.summary.previous_run import are_as_counted, is_of_cluster, read_findings, read_summary

Json = dict[str, Any]

UNCHECKED = "not_checked_again.jsonl"
"""File with the findings of earlier runs that a run could not check again, one object a line."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding of an earlier run, as far as later runs need it.

    `first_seen`: when the first run of the chain began (RFC 3339, UTC); `runs_seen`: how many runs
    of the chain had the finding. Both are None if unknown. `runs_unchecked`: how many runs since
    then could not check it again. `is_gone`: the newest of these did not list its ledger.
    """

    finding: ComparedFinding
    first_seen: str | None
    runs_seen: int | None
    runs_unchecked: int = 0
    is_gone: bool = False
    why: str = ""
    setting: Any = None
    """The value of the setting on which its kind depends, in the run that had it."""

    def as_json(self) -> Json:
        """Return the line of UNCHECKED, which `from_json` reads."""
        chain = {"first_seen": self.first_seen, "runs_seen": self.runs_seen}
        return {
            **self.finding.as_json(),
            **chain,
            "runs_unchecked": self.runs_unchecked,
            "is_gone": self.is_gone,
            "why": self.why,
            "setting": self.setting,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Sighting:
        """Return what `as_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else.
        """
        seen, since = stored["runs_seen"], stored["first_seen"]
        return cls(
            ComparedFinding.from_json(stored),
            _time(since),
            None if seen is None else int(seen),
            int(stored["runs_unchecked"]),
            bool(stored["is_gone"]),
            str(stored["why"]),
            stored["setting"],
        )


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """The newest finished run of the cluster. Times are RFC 3339, UTC.

    `carried`: the findings that it passed on.
    """

    run_id: str
    started_at: str
    terms: Mapping[str, Any]
    found: Sequence[Sighting] = ()
    carried: Sequence[Sighting] = ()

    def as_judged(self) -> Judged:
        """Return what a comparison needs of it: its terms, and which findings rest on a sample."""
        rows = {
            one.finding.ledger_id: Row(None, (), one.finding.assurance)
            for one in self.found
            if one.finding.ledger_id is not None and one.finding.family is Family.ENTRY
        }
        return Judged(False, False, True, rows, {}, terms=self.terms)

    def known(self) -> frozenset[tuple[str, Kind]]:
        """Return the id and kind of each finding that it passed on: found again, it is not new."""
        return frozenset((one.finding.id, one.finding.kind) for one in self.carried)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An earlier run exists, or existed, and cannot be read: `problem` says why."""

    problem: str


def read_earlier_run(output: Output, facts: ClusterFacts) -> EarlierRun | Unreadable | None:
    """Return the newest finished run of the cluster that `facts` describes; None if there is none.

    The run of another cluster counts as none. A damaged or lost run is `Unreadable`: its findings
    must not look new.
    """
    run = output.latest()
    if run is None:
        return (
            None
            if output.root.read_text(LATEST) is None
            else Unreadable("latest.json names no run")
        )
    try:
        summary = read_summary(run)
        if summary is None:
            return Unreadable(f"{run.address} is not there, or has no summary.json")
        started_at = _time(summary.started_at)
        if started_at is None:
            return Unreadable(f"{run.address} does not say when it began")
        if not is_of_cluster(summary, facts):
            return None
        about = About.from_json(json.loads(run.read_text("run.json") or "null"))
        terms = terms_json(about)
        found = [_to_sighting(one, terms) for one in _all_findings(run, summary)]
        return EarlierRun(summary.run_id, started_at, terms, found, _read_carried(run))
    except (OutputError, KeyError, TypeError, ValueError, AttributeError) as error:
        return Unreadable(f"{run.address} is damaged or of another version ({error})")


def _to_sighting(finding: FindingRecord, terms: Mapping[str, Any]) -> Sighting:
    history, name = finding.history or FindingHistory(), setting_of(finding.kind)
    setting = None if name is None else terms[name]
    since = _time(history.first_seen)
    return Sighting(ComparedFinding.of(finding), since, history.runs_seen, setting=setting)


def _time(text: Any) -> str | None:
    """Return a time of a file (RFC 3339, UTC), or None. Raises TypeError or ValueError for anything
    else.
    """
    if text is None:
        return None
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{text!a} is a time without a zone")
    return str(text)


def _all_findings(run: Place, summary: Summary) -> Sequence[FindingRecord]:
    """Return the findings of a run. Raises OutputError unless they match its summary's counts."""
    findings = read_findings(run)
    if not are_as_counted(findings, summary):
        raise OutputError("findings.jsonl does not have the findings that summary.json counts")
    return findings


def _read_carried(run: Place) -> Sequence[Sighting]:
    text = run.read_text(UNCHECKED)
    lines: Iterable[str] = () if text is None else filter(None, text.splitlines())
    return [Sighting.from_json(json.loads(line)) for line in lines]
