"""Follow each finding through the runs: since when it is seen, in how many runs, and what changed.

A chain of runs that had a finding ends only when a run checked it and did not find it. A run that
could not check it again passes it on, in a file of its own, and does not count as one that saw it.
A finding thereby keeps the time when it was first seen, even if a run in between could not check
it. The findings of the newest finished run are what the next run's are compared with.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from auditor.after.compared_finding import ComparedFinding, Key
from auditor.after.differences import Change, Difference, compare_findings
from auditor.after.rechecks import Judged, Row, differs, setting_of, terms_json, why_unchecked
from auditor.errors import OutputError
from auditor.evidence.newest_run import LATEST
from auditor.evidence.output_directory import Output
from auditor.evidence.run_directory import Place
from auditor.model.cluster import ClusterFacts
from auditor.model.finding import Family, Kind, Severity
from auditor.model.finding_record import FindingHistory, FindingRecord, Muted
from auditor.model.identity import BookieId, LedgerId
from auditor.model.summary import ChangeCounts, RunName, Summary
from auditor.model.verdict import Exempt
from auditor.summary.about import About
from auditor.summary.previous_run import are_as_counted, is_of_cluster, read_findings, read_summary

Json = dict[str, Any]

UNCHECKED = "not_checked_again.jsonl"
"""File with the findings of earlier runs that a run could not check again, one object a line."""
ANNOUNCED = "announced.json"
"""File that says that somebody was told of the run's news. It is written after publication: without
it, the next run takes them over."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding of an earlier run, as far as later runs need it.

    `first_seen`: when the first run of the chain began (RFC 3339, UTC); `runs_seen`: how many runs
    of the chain had the finding. Both are None if unknown. `runs_unchecked`: how many runs since
    then could not check it again. `is_gone`: the newest of these did not list its ledger.
    `unannounced_since`: the run since which it is news of which nobody was told, or None.
    `was_muted`: the run that had it had muted it.
    """

    finding: ComparedFinding
    first_seen: str | None
    runs_seen: int | None
    runs_unchecked: int = 0
    is_gone: bool = False
    why: str = ""
    setting: Any = None
    """The value of the setting on which its kind depends, in the run that had it."""
    unannounced_since: str | None = None
    was_muted: bool = False

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
            "unannounced_since": self.unannounced_since,
            "was_muted": self.was_muted,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Sighting:
        """Return what `as_json` wrote. Raises KeyError, TypeError or ValueError for anything
        else.
        """
        seen, since = stored["runs_seen"], stored["first_seen"]
        unannounced = stored.get("unannounced_since")
        return cls(
            ComparedFinding.from_json(stored),
            _time(since),
            None if seen is None else int(seen),
            int(stored["runs_unchecked"]),
            bool(stored["is_gone"]),
            str(stored["why"]),
            stored["setting"],
            None if unannounced is None else str(unannounced),
            bool(stored.get("was_muted")),
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
            sighting.finding.ledger_id: Row(None, (), sighting.finding.assurance)
            for sighting in self.found
            if sighting.finding.ledger_id is not None and sighting.finding.family is Family.ENTRY
        }
        return Judged(False, False, True, rows, {}, terms=self.terms)

    def known(self) -> frozenset[tuple[str, Kind]]:
        """Return the id and kind of each finding that it passed on: found again, it is not new."""
        return frozenset((sighting.finding.id, sighting.finding.kind) for sighting in self.carried)


@dataclass(frozen=True, slots=True)
class UnreadableRun:
    """An earlier run exists, or existed, and cannot be read: `problem` says why."""

    problem: str


def read_earlier_run(output: Output, facts: ClusterFacts) -> EarlierRun | UnreadableRun | None:
    """Return the newest finished run of the cluster that `facts` describes; None if there is none.

    The run of another cluster counts as none. A damaged or lost run is `Unreadable`: its findings
    must not look new.
    """
    run = output.latest()
    if run is None:
        return (
            None
            if output.root.read_text(LATEST) is None
            else UnreadableRun("latest.json names no run")
        )
    try:
        summary = read_summary(run)
        if summary is None:
            return UnreadableRun(f"{run.address} is not there, or has no summary.json")
        started_at = _time(summary.started_at)
        if started_at is None:
            return UnreadableRun(f"{run.address} does not say when it began")
        if not is_of_cluster(summary, facts):
            return None
        about = About.from_json(json.loads(run.read_text("run.json") or "null"))
        terms = terms_json(about)
        is_announced = run.has_file(ANNOUNCED)
        found = [
            _to_sighting(finding, terms, is_announced) for finding in _all_findings(run, summary)
        ]
        return EarlierRun(summary.run_id, started_at, terms, found, read_unchecked(run))
    except (OutputError, KeyError, TypeError, ValueError, AttributeError) as error:
        return UnreadableRun(f"{run.address} is damaged or of another version ({error})")


def _to_sighting(finding: FindingRecord, terms: Mapping[str, Any], is_announced: bool) -> Sighting:
    history, name = finding.history or FindingHistory(), setting_of(finding.kind)
    setting = None if name is None else terms[name]
    since = _time(history.first_seen)
    unannounced = findings_to_act_on([] if is_announced else [finding])
    return Sighting(
        ComparedFinding.of(finding),
        since,
        history.runs_seen,
        setting=setting,
        unannounced_since=history.news_since if unannounced else None,
        was_muted=finding.is_muted,
    )


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


def read_unchecked(run: Place) -> list[Sighting]:
    """Return the findings of earlier runs that a run could not check again. Raises OutputError if
    the file is damaged.
    """
    lines = filter(None, (run.read_text(UNCHECKED) or "").splitlines())
    try:
        return [Sighting.from_json(json.loads(line)) for line in lines]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OutputError(f"{run.address}/{UNCHECKED} is damaged ({error})") from None


def unchecked_bookies(run: Place, kind: Kind) -> frozenset[BookieId]:
    """Return the bookies with a finding of this kind in an earlier run that a run could not check
    again. Raises OutputError if the file is damaged.
    """
    return bookies_with(kind, [sighting.finding for sighting in read_unchecked(run)])


def bookies_with(
    kind: Kind, findings: Iterable[FindingRecord | ComparedFinding]
) -> frozenset[BookieId]:
    """Return the bookies with a finding of this kind."""
    return frozenset(
        finding.bookie_id
        for finding in findings
        if finding.kind is kind and finding.bookie_id is not None
    )


UNCHECKED_RUNS_MAX = 30
"""At most this many runs pass on a finding without checking it: a month of nights, as many as
`--keep-runs` keeps."""
GONE_RUNS_MAX = 3
"""At most this many runs pass on a finding on a ledger that they do not list. After three whole
runs that agree, a lower number of ledgers is the new baseline (LEDGER_POPULATION_DROPPED)."""


class Chain(NamedTuple):
    """Since when a finding is seen (RFC 3339, UTC), and in how many runs; None if unknown.

    `unannounced_since` and `was_muted` are those of its last sighting.
    """

    first_seen: str | None
    runs_seen: int | None
    unannounced_since: str | None = None
    was_muted: bool = False


UNKNOWN = Chain(None, None)


@dataclass(frozen=True, slots=True)
class History:
    """What became of the findings. `chains` and `became` have one item for each finding of this
    run, in order.

    `became` is None for a finding of which it is not known. `unchecked` are findings of earlier
    runs that this run could not check. `changes` is the field of the summary.
    """

    chains: Sequence[Chain]
    became: Sequence[Change | None]
    unchecked: Sequence[Sighting]
    changes: ChangeCounts | None


def trace(
    found: Sequence[ComparedFinding], earlier: EarlierRun, now: Judged, started_at: str
) -> History:
    """Return the history of the findings of a run that began at `started_at`. Pure.

    `now` is what the run knows of the subjects of all findings of the earlier run.
    """
    seen = {finding.key for finding in found}
    before = _compared_with(earlier, now, seen)
    known = {sighting.finding.key: sighting for sighting in before}
    chains = [_chain(known.get(finding.key), started_at) for finding in found]
    kinds = _kinds(found)
    then = earlier.as_judged()
    lost = [
        _hand_on(sighting, then, now, kinds)
        for sighting in before
        if sighting.finding.key not in seen
    ]
    unchecked = [sighting for sighting in lost if sighting is not None]
    differences = _differences(found, before, earlier, now)
    became = {difference.subjects: difference.change for difference in differences}
    return History(
        chains,
        [became[sighting.subjects] for sighting in found],
        [sighting for sighting in unchecked if _is_kept(sighting)],
        _changes(differences, unchecked, earlier, now),
    )


def first_history(found: Sequence[ComparedFinding], started_at: str) -> History:
    """Return the history of the findings of a run without an earlier run."""
    return History([Chain(started_at, 1)] * len(found), [Change.NEW] * len(found), (), None)


def unknown_history(found: Sequence[ComparedFinding], problem: str) -> History:
    """Return the history if the earlier run cannot be read: nothing is known of any finding."""
    return History([UNKNOWN] * len(found), [None] * len(found), (), ChangeCounts.unknown(problem))


def _compared_with(earlier: EarlierRun, now: Judged, seen: Collection[Key]) -> list[Sighting]:
    """Return the findings with which the run is compared.

    A run of named ledgers says nothing about other subjects, except what it found itself: a bookie
    may be lost for the named ledgers, too.
    """
    before = [*earlier.found, *earlier.carried]
    return (
        [
            sighting
            for sighting in before
            if sighting.finding.ledger_id in now.rows or sighting.finding.key in seen
        ]
        if now.is_partial
        else before
    )


def _chain(before: Sighting | None, started_at: str) -> Chain:
    """Return the chain of a finding.

    A resumed run may have begun before the run with which it is compared.
    """
    if before is None:
        return Chain(started_at, 1)
    last = before.unannounced_since, before.was_muted
    if before.first_seen is None or before.runs_seen is None:
        return Chain(None, None, *last)
    return Chain(min(before.first_seen, started_at), before.runs_seen + 1, *last)


def _kinds(
    found: Iterable[ComparedFinding],
) -> Mapping[tuple[LedgerId | None, BookieId | None], frozenset[Kind]]:
    """Return the kinds found on each ledger and bookie."""
    kinds = defaultdict[tuple[LedgerId | None, BookieId | None], set[Kind]](set)
    for sighting in found:
        if sighting.ledger_id is not None or sighting.bookie_id is not None:
            kinds[sighting.ledger_id, sighting.bookie_id].add(sighting.kind)
    return {subject: frozenset(some) for subject, some in kinds.items()}


def _hand_on(
    before: Sighting,
    earlier: Judged,
    now: Judged,
    kinds: Mapping[tuple[LedgerId | None, BookieId | None], frozenset[Kind]],
) -> Sighting | None:
    """Return a finding that this run lacks in the form in which it is passed on.

    None if the run checked it.
    """
    subjects = before.finding.subjects
    here = kinds.get((subjects.ledger_id, subjects.bookie_id), frozenset())
    kind = before.finding.kind
    if name := setting_of(kind):
        earlier = replace(earlier, terms={**earlier.terms, name: before.setting})
    why = why_unchecked(subjects, kind, earlier, now, here)
    if not why:
        return None
    row = now.rows.get(subjects.ledger_id) if subjects.ledger_id is not None else None
    on_ledger = subjects.ledger_id is not None and subjects.family != Family.REFERENCE
    is_gone = on_ledger and (row is None or row.exempt == Exempt.DELETED)
    runs = 1 if is_gone and not before.is_gone else before.runs_unchecked + 1
    return replace(before, runs_unchecked=runs, is_gone=is_gone, why=why)


def _is_kept(sighting: Sighting) -> bool:
    return sighting.runs_unchecked <= (GONE_RUNS_MAX if sighting.is_gone else UNCHECKED_RUNS_MAX)


def _is_counted_before(sighting: Sighting, now: Judged) -> bool:
    """Return whether an earlier run already counted the finding as unchecked, for a lasting reason.

    Lasting reasons are a ledger that is gone, and a setting that differs from that of the run that
    had the finding.
    """
    name = setting_of(sighting.finding.kind)
    is_other = name is not None and differs(name, sighting.setting, now.terms.get(name))
    return sighting.runs_unchecked > 0 and (sighting.is_gone or is_other)


def _differences(
    found: Sequence[ComparedFinding],
    before: Sequence[Sighting],
    earlier: EarlierRun,
    now: Judged,
) -> list[Difference]:
    """Return what became of each finding, as `auditor diff` says.

    Findings that are passed on are included, except those of `_is_counted_before`.
    """
    seen = {finding.key for finding in found}
    compared = [
        sighting.finding
        for sighting in before
        if sighting.finding.key in seen or not _is_counted_before(sighting, now)
    ]
    return compare_findings(compared, found, earlier.as_judged(), now)


def _changes(
    differences: Sequence[Difference],
    unchecked: Sequence[Sighting],
    earlier: EarlierRun,
    now: Judged,
) -> ChangeCounts:
    """Return how many findings have each change."""
    counts = Counter(difference.change for difference in differences)
    new = [difference for difference in differences if difference.change is Change.NEW]
    new_by_kind = Counter(
        difference.after.kind.value for difference in new if difference.after is not None
    )
    gone = {sighting.finding.subjects for sighting in unchecked if sighting.is_gone}
    unheard = [
        difference for difference in differences if difference.change is Change.NOT_CHECKED_AGAIN
    ]
    return ChangeCounts(
        RunName(earlier.run_id, earlier.started_at),
        partial=now.is_partial,
        new=counts[Change.NEW],
        worse=counts[Change.WORSE],
        still=counts[Change.STILL],
        better=counts[Change.BETTER],
        resolved=counts[Change.RESOLVED],
        not_checked_again=counts[Change.NOT_CHECKED_AGAIN],
        gone=sum(difference.subjects in gone for difference in unheard),
        new_by_kind=dict(sorted(new_by_kind.items())),
        new_ledgers=len({difference.subjects.ledger_id for difference in new} - {None}),
    ).without("problem")


def history_of(
    chain: Chain, became: Change | None, muted: Muted | None, run_id: str
) -> FindingHistory:
    """Return the history of a finding of the run `run_id`.

    It is news if it is new or worse, or if it is not known what became of it; if it was muted in
    the run before; or if it was news there and nobody was told.
    """
    is_news = became in (Change.NEW, Change.WORSE, None) or chain.was_muted
    since = chain.unannounced_since or (run_id if is_news else None)
    return FindingHistory(chain.first_seen, chain.runs_seen, muted, became, since)


def findings_to_act_on(findings: Iterable[FindingRecord]) -> list[FindingRecord]:
    """Return the findings that are news: what `--fail-on new` counts and `--notify` is sent.

    They are of warning or above, and not muted.
    """
    return [
        finding
        for finding in findings
        if finding.severity >= Severity.WARNING
        and not finding.is_muted
        and finding.news_since is not None
    ]
