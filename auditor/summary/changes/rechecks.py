"""What a stored run knows of the subjects of another run's findings, and whether it checked
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auditor.model.cluster import Registration
from auditor.model.finding import CATALOGUE, Family, Kind, Subject
from auditor.model.identity import BookieId, LedgerId
from auditor.model.verdict import Exempt
from auditor.summary.changes.compared_finding import Subjects
from auditor.witness.finding_lines import PROBED

SAMPLED = "the later run only read a sample of its entries"
UNREAD = (
    "its corrupt copies were not all read again: a list does not show whether the bytes are right"
)
POPULATION_DROP = "population_drop"
"""The name of the drop in the number of ledgers that a run allows (percent); None if it compared
its number with that of no run."""

_SETTING_OF = {
    Kind.PLACEMENT_FAILED: "placement",
    Kind.PLACEMENT_SOFT: "placement",
    Kind.UNDERREPLICATED_BEYOND_GRACE: "underreplication_grace_ms",
    Kind.MARK_WITHOUT_LEDGER: "underreplication_grace_ms",
    Kind.LEDGER_STUCK: "stuck_after_ms",
    Kind.LEDGER_ORPHANED: "orphan_age_ms",
    Kind.LEDGER_POPULATION_DROPPED: POPULATION_DROP,
}
"""The setting on which a kind depends: runs with different values judge it differently."""
_NEEDS_EVERY_ENTRY = frozenset({Kind.UNDERREPLICATED_UNRECOVERABLE, Kind.ENTRIES_BEYOND_END})
"""Kinds outside the family `entry` that a run finds only among entries that it looked at."""
_NEEDS_ANSWERS = frozenset({Kind.BOOKIE_LOST_CONTENT, Kind.ENTRY_LOG_LOST})
_GIVES_NO_ANSWERS = frozenset({Kind.BOOKIE_SILENT_YET_REGISTERED, Kind.BOOKIE_FAILING_REQUESTS})


@dataclass(frozen=True, slots=True)
class Row:
    """A VERDICTS row, as far as it shows whether a ledger was judged."""

    exempt: str | None
    unknowns: tuple[str, ...]
    assurance: str | None = None

    @property
    def is_probed(self) -> bool:
        """Whether the verdict rests on entry reads."""
        return self.assurance == PROBED


@dataclass(frozen=True, slots=True)
class Judged:
    """What a run knows of the subjects of the other run's findings.

    `rows` has those ledgers that the run listed. `bookies` has the bookies that it saw, each with
    its registration and whether it answered, as of the last look; `listers` those whose lister
    listed. `withholds`: the run could not decide something about bookies or the cluster.
    `are_references_known`: it read everything that Pulsar's topics reference. `terms` are the terms
    of judgement as JSON. `baseline`: the run with whose number of ledgers this one was compared.
    `nobody_answered`: no bookie did, and the run therefore judged none.

    The last two are about findings of the other run. `reread` has the ledgers whose corrupt copies
    this run all read again. `content_unknown` says by bookie why this run does not show whether the
    bookie holds what it should.
    """

    is_partial: bool
    withholds: bool
    are_references_known: bool
    rows: Mapping[LedgerId, Row]
    bookies: Mapping[BookieId, tuple[Registration, bool]]
    listers: frozenset[BookieId] = frozenset()
    maintenance: frozenset[BookieId] = frozenset()
    terms: Mapping[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    nobody_answered: bool = False
    reread: frozenset[LedgerId] = frozenset()
    content_unknown: Mapping[BookieId, str] = field(default_factory=dict)


def setting_of(kind: Kind) -> str | None:
    """Return the setting on which a kind depends, None if there is none."""
    return _SETTING_OF.get(kind)


def is_judged_otherwise(kind: Kind, earlier: Judged, later: Judged) -> str:
    """Return the setting on which a kind depends if the runs differ in it, else ""."""
    name = setting_of(kind)
    return (
        name
        if name is not None and differs(name, earlier.terms.get(name), later.terms.get(name))
        else ""
    )


def differs(name: str, one: Any, other: Any) -> bool:
    """Return whether two runs with these values of a setting judge differently.

    A run that accepted its number of ledgers has no POPULATION_DROP and differs from no run.
    """
    return one != other and not (name == POPULATION_DROP and None in (one, other))


def why_new(subjects: Subjects, kind: Kind, earlier: Judged, later: Judged) -> str:
    """Return why the earlier run could not have this finding; "" if it could."""
    if setting := is_judged_otherwise(kind, earlier, later):
        return f"the earlier run had another setting ({setting})"
    if subjects.ledger_id is None or subjects.family == Family.REFERENCE:
        return "the earlier run was of named ledgers" if earlier.is_partial else ""
    row = earlier.rows.get(subjects.ledger_id)
    if row is None:
        return (
            "the earlier run did not name this ledger"
            if earlier.is_partial
            else "the earlier run did not list this ledger"
        )
    if row.unknowns:
        return f"the earlier run could not judge it ({', '.join(row.unknowns)})"
    if row.exempt:
        return f"it was {row.exempt} in the earlier run"
    return "the earlier run only read a sample of its entries" if _is_sampled(kind, row) else ""


def why_unchecked(
    subjects: Subjects, kind: Kind, earlier: Judged, later: Judged, now: frozenset[Kind]
) -> str:
    """Return why the later run did not check the finding; "" if it did.

    `now`: the kinds that the later run found on the same ledger or bookie.
    """
    if setting := is_judged_otherwise(kind, earlier, later):
        return f"the later run had another setting ({setting})"
    if CATALOGUE[kind].subject is not Subject.LEDGER or CATALOGUE[kind].family is Family.REFERENCE:
        return _why_unchecked_around(subjects, kind, later, now)
    assert subjects.ledger_id is not None, subjects
    row = later.rows.get(subjects.ledger_id)
    if row is None:
        return (
            "the later run did not name this ledger"
            if later.is_partial
            else "the later run did not list this ledger"
        )
    if row.exempt == Exempt.DELETED:
        return "the ledger was not there when the later run read it last"
    if row.unknowns:
        return f"the later run could not judge it ({', '.join(row.unknowns)})"
    if row.exempt == Exempt.MARKED_UNDERREPLICATED and subjects.family != Family.METADATA:
        return _why_excused(now)
    if kind is Kind.ENTRY_CORRUPT and subjects.ledger_id in later.reread:
        return ""
    if _is_sampled(kind, row):
        return SAMPLED
    return UNREAD if kind is Kind.ENTRY_CORRUPT else ""


def why_no_better(subjects: Subjects, kind: Kind, later: Judged) -> str:
    """Return why a weaker finding of the later run may not be the whole truth; "" if it is.

    `kind` is that of the earlier run.
    """
    if subjects.ledger_id is None or subjects.family == Family.REFERENCE:
        return ""
    row = later.rows.get(subjects.ledger_id)
    if row is None or row.unknowns:
        reasons = "" if row is None else f" ({', '.join(row.unknowns)})"
        return f"the later run could not judge all of it{reasons}"
    if row.exempt == Exempt.MARKED_UNDERREPLICATED and subjects.family != Family.METADATA:
        return "it is marked under-replicated in the later run"
    is_unread = kind is Kind.ENTRY_CORRUPT and subjects.ledger_id not in later.reread
    return UNREAD if is_unread else ""


def _is_sampled(kind: Kind, row: Row) -> bool:
    return row.is_probed and (CATALOGUE[kind].family is Family.ENTRY or kind in _NEEDS_EVERY_ENTRY)


def _why_excused(now: frozenset[Kind]) -> str:
    """Return what a mark means for the other findings on its ledger."""
    if Kind.UNDERREPLICATED_UNRECOVERABLE in now:
        return "it has UNDERREPLICATED_UNRECOVERABLE now, which stands alone"
    if Kind.UNDERREPLICATED_BEYOND_GRACE in now:
        return "it is marked under-replicated beyond grace now (UNDERREPLICATED_BEYOND_GRACE)"
    return "its under-replication mark, within grace, excuses it now"


def _why_unchecked_around(
    subjects: Subjects, kind: Kind, later: Judged, now: frozenset[Kind]
) -> str:
    """Return why the later run did not check a finding on a bookie, the cluster, or a referenced
    ledger.

    No run lists a ledger without metadata: its row says nothing.
    """
    if later.is_partial:
        return "the later run was of named ledgers"
    if later.withholds:
        return "the later run withheld something about bookies or the cluster; see its report"
    if subjects.family == Family.REFERENCE:
        return (
            ""
            if later.are_references_known
            else "the later run could not read everything that topics reference"
        )
    if subjects.bookie_id is None:
        return ""
    if later.nobody_answered:
        return "no bookie answered the later run"
    return _why_unseen(subjects.bookie_id, kind, later, now)


def _why_unseen(bookie: BookieId, kind: Kind, later: Judged, now: frozenset[Kind]) -> str:
    """Return why the later run cannot say whether a bookie still has a finding; "" if it can."""
    if bookie in later.maintenance:
        return "the bookie is in planned maintenance in the later run"
    registration, has_answered = later.bookies.get(bookie, (Registration.NONE, False))
    if not has_answered and registration is not Registration.NONE:
        return "the bookie gave the later run no answer"
    if not has_answered:
        return "" if kind is Kind.BOOKIE_LOST_UNNOTICED else "the bookie is not registered any more"
    if kind is Kind.ENTRY_LOG_LOST and bookie not in later.listers:
        return "its lister did not list for the later run"
    failing = sorted(now & _GIVES_NO_ANSWERS)
    if failing and kind in _NEEDS_ANSWERS:
        return f"it has {', '.join(failing)} now"
    return later.content_unknown.get(bookie, "") if kind is Kind.BOOKIE_LOST_CONTENT else ""
