"""Compare the findings of two stored runs of one cluster. Pure: the caller reads the runs.

A finding is matched by what it is on (a ledger, a bookie or the cluster) and by its family. Whether
one that the later run lacks is resolved depends on what that run says of the subject.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from auditor.model.cluster import Registration
from auditor.model.finding import CATALOGUE, Family, Kind, Severity, Subject
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Exempt

Json = Mapping[str, Any]


class Change(StrEnum):
    """What became of a finding from the earlier run to the later one."""

    NEW = "new"
    WORSE = "worse"
    STILL = "still"
    BETTER = "better"
    RESOLVED = "resolved"
    NOT_CHECKED_AGAIN = "not checked again"


class Subjects(NamedTuple):
    """What findings are matched by. Both ids are None for a finding on the cluster."""

    ledger_id: LedgerId | None
    bookie_id: BookieId | None
    family: str


@dataclass(frozen=True, slots=True)
class Side:
    """What one run says of a subject in one family: its strongest kind, and how far it reaches.

    `extent`: entries hit. In the placement family it is the number of segments.
    """

    kind: Kind
    extent: int
    ids: tuple[str, ...]
    owner: Json | None

    @property
    def severity(self) -> Severity:
        return CATALOGUE[self.kind].severity


@dataclass(frozen=True, slots=True)
class Row:
    """A VERDICTS row, as far as it tells whether a ledger was judged."""

    exempt: str | None
    unknowns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run knows of the subjects of the other run's findings.

    `rows` has those ledgers that the run listed. `bookies` has the bookies that it saw, each with
    its registration and whether it answered, as of the last look. `withholds`: the run left
    something unsaid about bookies or the cluster. `are_references_known`: it read all that Pulsar's
    topics reference.
    """

    is_partial: bool
    withholds: bool
    are_references_known: bool
    rows: Mapping[LedgerId, Row]
    bookies: Mapping[BookieId, tuple[Registration, bool]]


@dataclass(frozen=True, slots=True)
class Difference:
    """One subject and family, before and after. `why` explains what the word alone does not."""

    change: Change
    subjects: Subjects
    before: Side | None
    after: Side | None
    why: str = ""

    @property
    def severity(self) -> Severity:
        """The severity now, or before where the finding is not there any more."""
        side = self.after or self.before
        assert side is not None, self
        return side.severity


def compare_findings(before: Iterable[Json], after: Iterable[Json], earlier: Judged, later: Judged) -> list[Difference]:
    """Return what became of each finding, the most severe first, then by kind and subject.

    `before` and `after` are findings as findings.jsonl has them.
    """
    old, new = _sides(before), _sides(after)
    found = [_compare(subjects, old.get(subjects), new.get(subjects), earlier, later, new) for subjects in {*old, *new}]
    return sorted(found, key=_rank)


def _rank(difference: Difference) -> tuple[Any, ...]:
    side = difference.after or difference.before
    assert side is not None, difference
    ledger, bookie, family = difference.subjects
    return -side.severity, list(Kind).index(side.kind), -1 if ledger is None else ledger, bookie or "", family


def _sides(findings: Iterable[Json]) -> dict[Subjects, Side]:
    grouped = defaultdict[Subjects, list[Json]](list)
    for found in findings:
        grouped[Subjects(found["ledger_id"], found["bookie_id"], found["family"])].append(found)
    return {subjects: _side(group) for subjects, group in grouped.items()}


def _side(group: Sequence[Json]) -> Side:
    """Return one side. Only placement has several findings of one subject: one a segment."""
    strongest = min((Kind(found["kind"]) for found in group), key=list(Kind).index)
    alike = [found for found in group if found["kind"] == strongest]
    extent = len(alike) if alike[0]["family"] == "placement" else int(alike[0]["entries_total"])
    return Side(strongest, extent, tuple(str(found["id"]) for found in group), alike[0]["owner"])


def _compare(
    subjects: Subjects, before: Side | None, after: Side | None, earlier: Judged, later: Judged, new: Mapping[Subjects, Side]
) -> Difference:
    if before is not None and after is not None:
        return Difference(_direction(before, after), subjects, before, after)
    if after is not None:
        return Difference(Change.NEW, subjects, None, after, _why_new(subjects, earlier))
    assert before is not None, subjects
    why = _why_unchecked(subjects, before.kind, later)
    if why:
        return Difference(Change.NOT_CHECKED_AGAIN, subjects, before, None, why)
    return Difference(Change.RESOLVED, subjects, before, None, _why_resolved(subjects, later, new))


def _direction(before: Side, after: Side) -> Change:
    """Return the change between two sides. The kind counts first, then how far it reaches."""
    order = list(Kind)
    then, now = (-order.index(before.kind), before.extent), (-order.index(after.kind), after.extent)
    if now == then:
        return Change.STILL
    return Change.WORSE if now > then else Change.BETTER


def _why_new(subjects: Subjects, earlier: Judged) -> str:
    """Return why the earlier run could not have this finding; "" where it could."""
    if subjects.ledger_id is None or subjects.family == Family.REFERENCE:
        return "the earlier run was of named ledgers" if earlier.is_partial else ""
    row = earlier.rows.get(subjects.ledger_id)
    if row is None:
        return "the earlier run did not name this ledger" if earlier.is_partial else "the earlier run did not list this ledger"
    if row.unknowns:
        return f"the earlier run could not judge it ({', '.join(row.unknowns)})"
    return f"the earlier run exempted it ({row.exempt})" if row.exempt else ""


def _why_unchecked(subjects: Subjects, kind: Kind, later: Judged) -> str:
    """Return why the later run says nothing for or against the finding; "" where it was checked."""
    if CATALOGUE[kind].subject is not Subject.LEDGER or CATALOGUE[kind].family is Family.REFERENCE:
        return _why_unchecked_around(subjects, kind, later)
    assert subjects.ledger_id is not None, subjects
    row = later.rows.get(subjects.ledger_id)
    if row is None:
        return "the later run did not name this ledger" if later.is_partial else "the later run did not list this ledger"
    if row.exempt == Exempt.DELETED:
        return "the ledger was deleted while the later run looked"
    if row.unknowns:
        return f"the later run could not judge it ({', '.join(row.unknowns)})"
    is_excused = row.exempt == Exempt.MARKED_UNDERREPLICATED and subjects.family != "metadata"
    return "its under-replication mark, within grace, excuses it now" if is_excused else ""


def _why_unchecked_around(subjects: Subjects, kind: Kind, later: Judged) -> str:
    """Return the same for a finding on a bookie, the cluster, or a ledger that topics reference.

    A ledger without metadata is listed by no run, so its row says nothing.
    """
    if later.is_partial:
        return "the later run was of named ledgers"
    if later.withholds:
        return "the later run withheld something about bookies or the cluster; see its report"
    if subjects.family == Family.REFERENCE:
        return "" if later.are_references_known else "the later run could not read everything that topics reference"
    if subjects.bookie_id is None:
        return ""
    registration, has_answered = later.bookies.get(subjects.bookie_id, (Registration.NONE, False))
    if has_answered:
        return ""
    if registration is not Registration.NONE:
        return "the bookie gave the later run no answer"
    return "" if kind is Kind.BOOKIE_LOST_UNNOTICED else "the bookie is not registered any more"


def _why_resolved(subjects: Subjects, later: Judged, new: Mapping[Subjects, Side]) -> str:
    """Return what else the later run says of the subject: resolved does not mean sound."""
    same = [side for other, side in new.items() if other[:2] == subjects[:2] and any(other[:2])]
    if same:
        return f"it has {', '.join(sorted(side.kind for side in same))} now"
    row = None if subjects.ledger_id is None else later.rows.get(subjects.ledger_id)
    return f"exempt now: {row.exempt}" if row is not None and row.exempt else ""
