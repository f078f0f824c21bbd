"""Compare the findings of two stored runs of one cluster. Pure: the caller reads the runs.

Findings are matched by subject (a ledger, a bookie or the cluster) and family. If the later run
lacks a finding, what it knows of the subject decides whether the finding is resolved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from auditor.after.compared_finding import ComparedFinding, Subjects
from auditor.after.mutes import covers
from auditor.after.rechecks import (
    Judged,
    is_judged_otherwise,
    why_new,
    why_no_better,
    why_unchecked,
)
from auditor.model.finding import CATALOGUE, RANGES_MAX, Family, Kind, Ranges, Severity
from auditor.model.finding_record import Owner
from auditor.model.identity import BookieId


class Change(StrEnum):
    """What became of a finding from the earlier run to the later one."""

    NEW = "new"
    WORSE = "worse"
    STILL = "still"
    BETTER = "better"
    RESOLVED = "resolved"
    NOT_CHECKED_AGAIN = "not checked again"


@dataclass(frozen=True, slots=True)
class Side:
    """What one run says of a subject in one family: its strongest kind, and how far it reaches.

    `extent`: entries hit; in the placement family the number of segments; for a finding on the
    cluster what its facts count, ledgers or marks. `baseline`: the run with which the number of
    ledgers was compared. `missing_on`: ranges of entries that each bookie lacks; None if not
    stored.
    """

    kind: Kind
    extent: int
    ids: tuple[str, ...]
    owner: Owner | None
    baseline: str | None = None
    missing_on: Mapping[BookieId, Ranges] | None = None

    @property
    def severity(self) -> Severity:
        return CATALOGUE[self.kind].severity


@dataclass(frozen=True, slots=True)
class Difference:
    """One subject and family, before and after. `why` adds what the change alone does not say."""

    change: Change
    subjects: Subjects
    before: Side | None
    after: Side | None
    why: str = ""

    @property
    def severity(self) -> Severity:
        """The current severity, or the earlier one if the finding is gone."""
        side = self.after or self.before
        assert side is not None, self
        return side.severity


def compare_findings(
    before: Iterable[ComparedFinding],
    after: Iterable[ComparedFinding],
    earlier: Judged,
    later: Judged,
) -> list[Difference]:
    """Return what became of each finding, the most severe first, then by kind and subject."""
    old, new = _sides(before), _sides(after)
    kinds = defaultdict[tuple[object, object], set[Kind]](set)
    for subjects, side in new.items():
        kinds[subjects[:2]].add(side.kind)
    found = [
        _compare(
            subjects,
            old.get(subjects),
            new.get(subjects),
            earlier,
            later,
            frozenset(kinds[subjects[:2]]) if any(_ids(subjects)) else frozenset(),
        )
        for subjects in {*old, *new}
    ]
    return sorted(found, key=_rank)


def _rank(difference: Difference) -> tuple[Any, ...]:
    side = difference.after or difference.before
    assert side is not None, difference
    ledger, bookie, *_ = difference.subjects
    return -side.severity, list(Kind).index(side.kind), ledger, bookie


def _sides(findings: Iterable[ComparedFinding]) -> dict[Subjects, Side]:
    grouped = defaultdict[Subjects, list[ComparedFinding]](list)
    for found in findings:
        grouped[found.subjects].append(found)
    return {subjects: _side(group) for subjects, group in grouped.items()}


def _side(group: Sequence[ComparedFinding]) -> Side:
    """Return one side. Only placement has several findings of one subject: one a segment."""
    strongest = min((found.kind for found in group), key=list(Kind).index)
    alike = [found for found in group if found.kind is strongest]
    first = alike[0]
    extent = len(alike) if first.family is Family.PLACEMENT else first.extent
    ids = tuple(found.id for found in group)
    missing_on = first.missing_on if first.family is Family.ENTRY else None
    return Side(strongest, extent, ids, first.owner, first.baseline, missing_on)


def _compare(
    subjects: Subjects,
    before: Side | None,
    after: Side | None,
    earlier: Judged,
    later: Judged,
    now: frozenset[Kind],
) -> Difference:
    """Return what became of one finding. `now`: the later kinds on its ledger and bookie."""
    if before is not None and after is not None:
        change, why = _direction(subjects, before, after, earlier, later)
        return Difference(change, subjects, before, after, why)
    if after is not None:
        return Difference(
            Change.NEW, subjects, None, after, why_new(subjects, after.kind, earlier, later)
        )
    assert before is not None, subjects
    why = why_unchecked(subjects, before.kind, earlier, later, now)
    if why:
        is_there = subjects.family == Family.ENTRY and Kind.UNDERREPLICATED_UNRECOVERABLE in now
        return Difference(
            Change.STILL if is_there else Change.NOT_CHECKED_AGAIN, subjects, before, None, why
        )
    return Difference(
        Change.RESOLVED, subjects, before, None, _why_resolved(subjects, before, later, now)
    )


def _ids(subjects: Subjects) -> tuple[bool, bool]:
    return subjects.ledger_id is not None, subjects.bookie_id is not None


def _direction(
    subjects: Subjects, before: Side, after: Side, earlier: Judged, later: Judged
) -> tuple[Change, str]:
    """Return the change between two sides, and why it is not what the numbers say.

    The kind decides first, then the extent. A sample shows no extent, and what a run could not see
    is not better.
    """
    if setting := is_judged_otherwise(after.kind, earlier, later):
        return Change.STILL, f"the runs had different settings ({setting})"
    if before.baseline != after.baseline:
        return Change.STILL, "the runs were compared with different earlier runs"
    order = list(Kind)
    kinds = order.index(before.kind) - order.index(after.kind)
    is_sample = _is_sampled(subjects, earlier, later)
    change = kinds or (0 if is_sample else after.extent - before.extent)
    if change > 0:
        return Change.WORSE, ""
    if not kinds and not is_sample and (more := _lacks_more(before, after)):
        return (Change.STILL if change else Change.WORSE), more
    if is_sample:
        return Change.STILL, _NO_BETTER_BY_SAMPLE if change else ""
    why = why_no_better(subjects, before.kind, later) if change else ""
    return (Change.BETTER if change and not why else Change.STILL), why


_NO_BETTER_BY_SAMPLE = (
    "a run that only reads a sample of the entries does not show that it is better"
)


def _is_sampled(subjects: Subjects, *runs: Judged) -> bool:
    """Return whether one of the runs knows the ledger's entries only from a sample."""
    if subjects.family != Family.ENTRY or subjects.ledger_id is None:
        return False
    rows = (run.rows.get(subjects.ledger_id) for run in runs)
    return any(row is not None and row.is_probed for row in rows)


def _lacks_more(before: Side, after: Side) -> str:
    """Return a bookie that lacks entries which it did not lack before, or "".

    "" also if that is not stored. A finding stores RANGES_MAX ranges for each bookie. Entries above
    the last range are not compared.
    """
    if before.missing_on is None or after.missing_on is None:
        return ""
    for bookie, ranges in after.missing_on.items():
        had = before.missing_on.get(bookie, ())
        known = [stretch for stretch in ranges if len(had) < RANGES_MAX or stretch[0] <= had[-1][1]]
        if not covers(had, known):
            return f"{bookie} lacks entries that it did not lack"
    return ""


def _why_resolved(subjects: Subjects, before: Side, later: Judged, now: frozenset[Kind]) -> str:
    """Return what else the later run says of the subject: resolved does not mean sound."""
    if before.kind is Kind.LEDGER_POPULATION_DROPPED and before.baseline != later.baseline:
        return (
            f"the number of ledgers is not compared with that of {before.baseline} any more: the"
            " lower number was accepted"
        )
    if now:
        return f"it has {', '.join(sorted(now))} now"
    row = None if subjects.ledger_id is None else later.rows.get(subjects.ledger_id)
    return f"exempt now: {row.exempt}" if row is not None and row.exempt else ""
